package checker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestCompatibility(t *testing.T) {
	inGroups := func(name string, groups ...string) *builder.DeviceBuilder {
		return builder.Device(name).Consumes("card", "memory", "10Gi").Modify(func(d *resourceapi.Device) {
			d.ConsumesCounters[0].CompatibilityGroups = groups
		})
	}
	values := newSlice("counters", "node-a")
	values.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters("memory", "80Gi")}}
	with := func(devices ...string) cluster {
		c := cluster{
			nodes: []*corev1.Node{newNode("node-a")},
			slices: []*resourceapi.ResourceSlice{values, newSlice("devices", "node-a",
				inGroups("a", "mig"), inGroups("b", "mig", "vgpu"), inGroups("c", "vgpu"),
				inGroups("none-0"), inGroups("none-1"), builder.Device("other"))},
		}
		for _, device := range devices {
			c.claims = append(c.claims, newClaim("has-"+device, request("gpu", 1), allocated("gpu", "node-a", device)))
		}
		return c
	}
	violated := []string{"DevicesIncompatible pool gpu.example.com/node-a"}
	runAll(t, map[string]testCase{
		"in common":                   {cluster: with("a", "b", "other")},
		"without groups":              {cluster: with("none-0", "none-1")},
		"nothing in common":           {cluster: with("a", "c"), want: violated, wantTexts: []string{"device c", `"vgpu"`, "counter set card", `"mig"`}},
		"nothing in common to all":    {cluster: with("a", "b", "c"), want: violated},
		"with and without groups":     {cluster: with("a", "none-0"), want: violated},
		"without and with them, once": {cluster: with("none-0", "none-1", "a"), want: violated},
	})
}
