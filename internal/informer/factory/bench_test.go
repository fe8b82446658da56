package factory

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkSlice: slices of nodes with ten devices each, with eight attributes; two of these differ between devices.
func BenchmarkSlice(b *testing.B) {
	slice := func(node int) *resourceapi.ResourceSlice {
		var devices []*builder.DeviceBuilder
		for i := range 10 {
			devices = append(devices, builder.Device(fmt.Sprint("gpu-", i)).Attr("architecture", "Example").Attr("computeCapability", builder.Version("9.0.0")).
				Attr("driverVersion", builder.Version("570.86.15")).Attr("index", i).Attr("productName", "Example 80 GB").Attr("type", "gpu").
				Attr("uuid", fmt.Sprint("gpu-", node, "-", i)).Attr("resource.kubernetes.io/pcieRoot", fmt.Sprint("pci0000:", i%2)).Capacity("memory", "80Gi"))
		}
		return builder.NodeSlice(fmt.Sprint("node-", node), devices...).Obj()
	}
	c := newContents()
	for i := range b.N {
		b.StopTimer()
		s := slice(i)
		b.StartTimer()
		c.slice(s)
	}
}

// BenchmarkClaim: claims from one template, each allocated on a node.
func BenchmarkClaim(b *testing.B) {
	c := newContents()
	for i := range b.N {
		b.StopTimer()
		claim := builder.Claim(fmt.Sprint("c", i), builder.Request("gpu", "gpu")).Allocated(fmt.Sprint("node-", i/4), "gpu-0")
		b.StartTimer()
		c.claim(claim)
	}
}
