package webhook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// Names of requests are DNS labels, such as those that a generator makes of hashes. A claim lists them in
// constraints and configurations, under a key that quantities have elsewhere.
func TestRequestNamesThatLookLikeQuantities(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*resourceapi.ResourceClaim, string){
		"constraint": func(c *resourceapi.ResourceClaim, request string) {
			attribute := resourceapi.FullyQualifiedName("d.example/x")
			c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{request}, MatchAttribute: &attribute}}
		},
		"configuration": func(c *resourceapi.ResourceClaim, request string) {
			c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: []string{request}}}
		},
		"parameters": func(c *resourceapi.ResourceClaim, request string) {
			opaque := &resourceapi.OpaqueDeviceConfiguration{Driver: b.Driver, Parameters: runtime.RawExtension{
				Raw: []byte(`{"requests":{"memory":"` + request + `"},"consumedCapacity":{"memory":"` + request + `"}}`),
			}}
			c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: opaque}}}
		},
	} {
		for _, request := range []string{"gpu", "gpu-7c3e10482"} {
			t.Run(name+" of "+request, func(t *testing.T) {
				t.Parallel()
				before, after := b.Claim("c").Obj(), b.Claim("c").Allocated("a", "gpu-0")
				for _, claim := range []*resourceapi.ResourceClaim{before, after} {
					claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: request, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
					edit(claim, request)
				}
				after.Status.Allocation.Devices.Results[0].Request = request
				code, text := post(t, answers(t, newDecider()), strings.NewReader(string(raw(t, review(t, before, after)))))
				require.Equal(t, 200, code, text)
			})
		}
	}
}

// A tenant may ask for as much as it likes: API servers accept that, and ask about what such a claim is given for its
// next best alternative.
func TestRequestsForEndlessCapacity(t *testing.T) {
	t.Parallel()
	before, after := b.Claim("c").Obj(), b.Claim("c").Allocated("a", "gpu-0")
	for _, claim := range []*resourceapi.ResourceClaim{before, after} {
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "much", DeviceClassName: "gpu", Capacity: &resourceapi.CapacityRequirements{
				Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1e999999999")},
			}},
			{Name: "less", DeviceClassName: "gpu"},
		}}}
	}
	after.Status.Allocation.Devices.Results[0].Request = "gpu/less"
	code, text := post(t, answers(t, newDecider()), strings.NewReader(string(raw(t, review(t, before, after)))))
	require.Equal(t, 200, code, text)
}
