package whatif_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// A node on which others hold all devices may still do for claims that need none for themselves.
func TestFullNode(t *testing.T) {
	type requests = []*builder.RequestBuilder
	for name, test := range map[string]struct {
		device *builder.DeviceBuilder
		asked  requests
		held   bool
		want   whatif.Verdict
	}{
		"held":                        {builder.Device("gpu-0"), requests{builder.Request("gpu", builder.Driver)}, true, whatif.DoesNotFit},
		"free":                        {builder.Device("gpu-0"), requests{builder.Request("gpu", builder.Driver)}, false, whatif.Fits},
		"too many":                    {builder.Device("gpu-0"), requests{builder.Request("gpu", builder.Driver).Count(2)}, false, whatif.DoesNotFit},
		"admin access":                {builder.Device("gpu-0"), requests{builder.Request("gpu", builder.Driver).Admin()}, true, whatif.Fits},
		"two shares of one":           {builder.Device("gpu-0").Shared(), requests{builder.Request("a", builder.Driver), builder.Request("b", builder.Driver)}, false, whatif.Fits},
		"the second alternative":      {builder.Device("gpu-0"), requests{builder.FirstAvailable("gpu", builder.Request("two", builder.Driver).Count(2), builder.Request("one", builder.Driver))}, false, whatif.Fits},
		"neither of the alternatives": {builder.Device("gpu-0"), requests{builder.FirstAvailable("gpu", builder.Request("three", builder.Driver).Count(3), builder.Request("two", builder.Driver).Count(2))}, false, whatif.DoesNotFit},
		"all there are":               {builder.Device("gpu-0"), requests{builder.Request("gpu", builder.Driver).All()}, false, whatif.Fits},
	} {
		t.Run(name, func(t *testing.T) {
			o := whatif.Objects{
				Nodes:   []*v1.Node{node("n")},
				Classes: []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)},
				Slices:  []*resourceapi.ResourceSlice{builder.NodeSlice("n", test.device).Obj()},
				Claims:  []*resourceapi.ResourceClaim{builder.Claim("asked", test.asked...).Obj()},
			}
			if test.held {
				holding(&o, "holder", "n", "gpu-0")
			}
			s := whatif.New(o, whatif.Options{})
			for range 2 {
				assert.Equal(t, test.want, fit(t, s, builder.Pod("a", builder.Using(builder.Uses("asked")...))).Verdict)
			}
		})
	}
}
