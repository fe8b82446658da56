package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// These tests are scenarios in which this allocator once differed from upstream. Random scenarios revealed
// them; here they are as small as possible.

// asksFor makes a request for an amount of bandwidth.
func asksFor(name, amount string) *b.RequestBuilder {
	return b.Request(name, "gpu").Modify(func(r *resourceapi.ExactDeviceRequest) {
		r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(amount)}}
	})
}

// TestAllWithCapacityLeavesOutWhatIsTooSmall uses two devices that differ only in size. "All" means only the
// large one, so the first request can have the small one; the two are not interchangeable.
func TestAllWithCapacityLeavesOutWhatIsTooSmall(t *testing.T) {
	s := dropInCase(onNode("p", b.Device("large").Capacity("bandwidth", "4"), b.Device("small").Capacity("bandwidth", "2")))
	s.features.ConsumableCapacity = true
	s.claims = objects([]*b.ClaimBuilder{b.Claim("c", b.Request("one", "gpu"), asksFor("all", "3").All())})
	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
	results, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.NotNil(t, results)
	require.Equal(t, []string{"one=p/small", "all=p/large"}, chosen(results[0]))
}

// TestSharesCountWhenTheDeviceIsNotSharedAnyMore uses a device that its driver stopped offering for sharing
// while a claim still has a share of it.
func TestSharesCountWhenTheDeviceIsNotSharedAnyMore(t *testing.T) {
	s := dropInCase(onNode("p", b.Device("former").Capacity("bandwidth", "4"), b.Device("other").Capacity("bandwidth", "4")))
	s.features.ConsumableCapacity = true
	former := structured.MakeDeviceID(b.Driver, "p", "former")
	s.state.AllocatedSharedDeviceIDs = sets.New(structured.MakeSharedDeviceID(former, ptr.To(types.UID("share"))))
	s.state.AggregatedCapacity = structured.NewConsumedCapacityCollection()
	s.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(former,
		map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("1")}))
	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
	results, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/other"}, chosen(results[0]))
}

// TestMalformedSliceThatIsNotUnderstood uses a slice with counters, which is ignored while
// DRAPartitionableDevices is off. Then its node selector does not matter either.
func TestMalformedSliceThatIsNotUnderstood(t *testing.T) {
	counters := b.Slice("p-counters").InPool("p", 1, 2).OnLabeled("zone", "1").Counters("set", "memory", "1").
		Modify(func(s *resourceapi.ResourceSlice) { makeMalformed(s.Spec.NodeSelector) })
	s := dropInCase(counters, b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(gpus(1)...))
	s.features.PartitionableDevices = false
	checkBug(t, s, "gpu=p/gpu-0")
}
