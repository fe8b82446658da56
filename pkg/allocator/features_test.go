package allocator_test

import (
	"math/rand"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// allFeatures makes a scenario richer: shared devices, request policies,
// compatibility groups, derived attributes, binding conditions, node operations.
// Each feature is usually on.
func (g *generator) allFeatures(s scenario) scenario {
	s.features = structured.Features{
		AdminAccess: !g.oneIn(20), CompatibilityGroups: !g.oneIn(8), ConsumableCapacity: !g.oneIn(8),
		DerivedAttributes: !g.oneIn(8), DeviceBindingAndStatus: !g.oneIn(4), DeviceTaints: !g.oneIn(15),
		FractionalCapacityRange: !g.oneIn(4), ListTypeAttributes: g.oneIn(2), OptionalNodeOperations: !g.oneIn(8),
		PartitionableDevices: !g.oneIn(20), PrioritizedList: !g.oneIn(20),
	}
	if g.oneIn(2) {
		s.node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
	withGroups, withCapacity, withDerived := g.oneIn(2), g.oneIn(2), g.oneIn(3)
	for _, slice := range s.slices {
		if g.oneIn(20) {
			slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"PrepareUnprepare"}
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if withGroups {
				g.compatibilityGroups(device)
			}
			if withCapacity && !g.oneIn(4) {
				g.capacity(device)
				g.share(&s, slice, device)
			}
		}
	}
	for _, claim := range s.claims {
		for i := range claim.Spec.Devices.Requests {
			g.enrich(&claim.Spec.Devices.Requests[i], withCapacity, withDerived)
		}
	}
	return s
}

func (g *generator) compatibilityGroups(device *resourceapi.Device) {
	for i := range device.ConsumesCounters {
		if !g.oneIn(3) {
			device.ConsumesCounters[i].CompatibilityGroups = pick(g, []string{"x"}, []string{"y"}, []string{"x", "y"})
		}
	}
}

func (g *generator) capacity(device *resourceapi.Device) {
	device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"bandwidth": {Value: resource.MustParse(pick(g, "4", "6", "4", "10")), RequestPolicy: g.policy()},
	}
	if g.oneIn(4) {
		device.Capacity["slots"] = resourceapi.DeviceCapacity{Value: resource.MustParse("2"), RequestPolicy: g.policy()}
	}
	if !g.oneIn(3) {
		device.AllowMultipleAllocations = ptr.To(true)
	}
}

func quantity(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

func (g *generator) policy() *resourceapi.CapacityRequestPolicy {
	switch g.Intn(6) {
	case 0:
		return nil
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1")}
	case 2:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1"),
			ValidValues: []resource.Quantity{*quantity("1"), *quantity("3"), *quantity("4")}}
	case 3:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1"),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity(pick(g, "3", "5"))}}
	case 4:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("500m"),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("500m"), Step: quantity(pick(g, "250m", "1"))}}
	default:
		return &resourceapi.CapacityRequestPolicy{
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity("8"), Step: quantity("2")}}
	}
}

// share lets claims have shares of a device already.
func (g *generator) share(s *scenario, slice *resourceapi.ResourceSlice, device *resourceapi.Device) {
	id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
	if !s.features.ConsumableCapacity || device.AllowMultipleAllocations == nil || !g.oneIn(4) || s.state.AllocatedDevices.Has(id) {
		return
	}
	s.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, ptr.To(types.UID("share"))))
	if !g.oneIn(3) {
		s.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id,
			map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": *quantity(pick(g, "1", "2", "500m"))}))
	}
}

func (g *generator) enrich(request *resourceapi.DeviceRequest, withCapacity, withDerived bool) {
	if exact := request.Exactly; exact != nil {
		g.enrichOne(&exact.Capacity, &exact.DerivedAttributes, withCapacity, withDerived)
	}
	for i := range request.FirstAvailable {
		alternative := &request.FirstAvailable[i]
		g.enrichOne(&alternative.Capacity, &alternative.DerivedAttributes, withCapacity, withDerived)
	}
}

func (g *generator) enrichOne(capacity **resourceapi.CapacityRequirements, derived *[]resourceapi.DeviceDerivedAttribute, withCapacity, withDerived bool) {
	if withCapacity && g.oneIn(2) {
		*capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			"bandwidth": *quantity(pick(g, "1", "2", "3", "700m", "1500m", "5", "20")),
		}}
		if g.oneIn(8) {
			(*capacity).Requests["slots"] = *quantity("1")
		}
		if g.oneIn(60) {
			(*capacity).Requests["bandwidth"] = *quantity(pick(g, "9223372036854775807", "10E", "-3"))
		}
	}
	if withDerived && g.oneIn(2) {
		*derived = append(*derived, resourceapi.DeviceDerivedAttribute{
			Name: resourceapi.FullyQualifiedName(pick(g, "gpu.example.com/numa", "example.com/root")),
			Expression: pick(g, `"model" in `+attr+` ? `+attr+`.model : "none"`, `"same"`, `device.driver`,
				`"model" in `+attr+` ? `+attr+`.model : "none"`, attr+`.numa`, `device.driver ==`),
		})
	}
}

// TestSameAsUpstreamWithAllFeatures is TestSameAsUpstream for the whole API.
func TestSameAsUpstreamWithAllFeatures(t *testing.T) {
	forScenarios(t, 0, scenarioCount(t, 20_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		g := generator{Rand: rand.New(rand.NewSource(s.seed))}
		s = g.allFeatures(s)
		diff, result := s.compare(t.Context(), celCache)
		if diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
		return result
	})
}
