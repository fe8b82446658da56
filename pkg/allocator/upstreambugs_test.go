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

// These tests are scenarios of bugs of the upstream allocator, by the number of the pull request in
// kubernetes/kubernetes about them. Unless a test says otherwise, upstream 1.37.1 has fixed the bug and
// answers as we do.

// checkBug compares with upstream and with the correct devices, none for no solution.
func checkBug(t *testing.T, s scenario, want ...string) {
	t.Helper()
	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
	results, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	if want == nil {
		require.Nil(t, results)
		return
	}
	require.NotNil(t, results, "there should be a solution")
	require.Equal(t, want, chosen(results[0]))
}

// sharedPartition is a pool with a shared and an exclusive device that each draw all of the same counter. A
// claim has a share of the shared device.
func sharedPartition(consumed string) scenario {
	s := dropInCase(
		b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("set", "memory", "4"),
		b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(
			b.Device("shared").Shared().Capacity("bandwidth", "10").Consumes("set", "memory", "4"),
			b.Device("whole").Consumes("set", "memory", "4")))
	s.features.ConsumableCapacity = true
	id := structured.MakeDeviceID(b.Driver, "p", "shared")
	s.state.AllocatedSharedDeviceIDs = sets.New(structured.MakeSharedDeviceID(id, ptr.To(types.UID("share"))))
	if consumed != "" {
		s.state.AggregatedCapacity = structured.NewConsumedCapacityCollection()
		s.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id,
			map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(consumed)}))
	}
	return s
}

// TestUpstream139040 (issue 139034): the draws of a shared device from counters were forgotten between
// scheduling cycles, so that another device could draw the same again. Issue 140433 is the reverse: a further
// share of the device was charged again. Both must be right whether or not the share has an amount.
func TestUpstream139040(t *testing.T) {
	for _, consumed := range []string{"", "1"} {
		s := sharedPartition(consumed)
		s.claims[0].Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: "!device.allowMultipleAllocations"}}}
		checkBug(t, s)

		s = sharedPartition(consumed)
		s.claims = objects([]*b.ClaimBuilder{b.Claim("c", asksFor("gpu", "2"))})
		checkBug(t, s, "gpu=p/shared")
	}
}

// TestUpstream138885 (issue 138882): a request for all devices made the scheduler
// crash if one of them draws from counters.
func TestUpstream138885(t *testing.T) {
	all := func(memory string) scenario {
		s := dropInCase(
			b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("set", "memory", memory),
			b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(
				b.Device("a").Consumes("set", "memory", "2"), b.Device("b").Consumes("set", "memory", "2")))
		s.claims = objects([]*b.ClaimBuilder{wantsAll()})
		return s
	}
	checkBug(t, all("4"), "gpu=p/a", "gpu=p/b")
	checkBug(t, all("3")) // All means all, not as many as possible.
	held := all("4")
	held.state.AllocatedDevices = sets.New(structured.MakeDeviceID(b.Driver, "p", "a"))
	checkBug(t, held)
}

// TestUpstream141338 (issue 141214, both open at the time of 1.37.1): older API servers accepted a device
// with a node selector of two terms, which the API does not allow. Such a device ends the search with a fatal
// error where it should only exclude the node. The drop-in still answers as upstream does. In any case the
// error must come only if such a device is chosen, and not after one that fixes the node.
func TestUpstream141338(t *testing.T) {
	odd := func(name string) *b.DeviceBuilder {
		return b.Device(name).OnLabeled("zone", "1").Modify(func(d *resourceapi.Device) { addTerm(d.NodeSelector) })
	}
	local := func(name string) *b.DeviceBuilder { return b.Device(name).OnNode("n") }
	make := func(count int64, devices ...*b.DeviceBuilder) scenario {
		s := dropInCase(b.Slice("p").PerDevice().Devices(devices...))
		s.node = b.Node("n", "zone", "1")
		s.claims = objects([]*b.ClaimBuilder{wants(count)})
		return s
	}
	checkBug(t, make(1, local("a"), odd("b")), "gpu=p/a")
	checkBug(t, make(2, local("a"), odd("b")), "gpu=p/a", "gpu=p/b")

	s := make(1, odd("a"), local("b"))
	for _, create := range []newAllocator{structured.NewAllocator, allocator.New} {
		_, err := s.run(t.Context(), create, newCache())
		require.Equal(t, "fatal", errorClass(err))
	}
	s.node = b.Node("n", "zone", "3") // A node that device a does not reach.
	checkBug(t, s, "gpu=p/b")
}

// TestUpstream130593: with alternatives that result in too many devices, every combination of the earlier
// devices was tried in vain.
func TestUpstream130593(t *testing.T) {
	alternatives := func(name string, counts ...int64) *b.RequestBuilder {
		var list []*b.RequestBuilder
		for i, count := range counts {
			list = append(list, b.Request(names("s", len(counts))[i], "gpu").Count(count))
		}
		return b.FirstAvailable(name, list...)
	}
	c := nodeWith(0, gpus(60)...)
	claim := b.Claim("c", alternatives("x", 16, 1), alternatives("y", 16, 1), alternatives("z", 8, 7))
	outcome, err := c.solve(t.Context(), claim)
	require.NoError(t, err)
	require.True(t, outcome.Fits())
	require.Len(t, outcome.Results[0].Devices.Results, 16+1+8)
	require.LessOrEqual(t, outcome.Steps, 100, "devices tried")
}

// TestUpstream131730: allocation was slow above all where it is impossible, because all
// combinations of equal devices were tried. Steps are devices tried, so that
// these numbers do not depend on the machine.
func TestUpstream131730(t *testing.T) {
	one := func(n int) []*b.RequestBuilder {
		var requests []*b.RequestBuilder
		for _, name := range names("r", n) {
			requests = append(requests, b.Request(name, "gpu"))
		}
		return requests
	}
	tests := map[string]struct {
		cluster cluster
		claim   *b.ClaimBuilder
	}{
		"17 requests of one device on 16":   {nodeWith(0, gpus(16)...), b.Claim("c", one(17)...)},
		"8 and 9 devices on 16":             {nodeWith(0, gpus(16)...), b.Claim("c", b.Request("x", "gpu").Count(8), b.Request("y", "gpu").Count(9))},
		"5 of 8 on one of two NUMA nodes":   {nodeWith(0, numbered(gpus(8), "numa", 0, 0, 0, 0, 1, 1, 1, 1)...), wants(5).Match("gpu.example.com/numa")},
		"9 alternatives that all are wrong": {nodeWith(0, gpus(16)...), b.Claim("c", b.Request("x", "gpu").Count(8), b.FirstAvailable("y", b.Request("a", "gpu").Count(9), b.Request("b", "gpu").Count(10)))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			outcome := tc.cluster.mustNotFit(t, tc.claim)
			require.False(t, outcome.GaveUp)
			require.LessOrEqual(t, outcome.Steps, 50, "devices tried")
		})
	}
}

// TestUpstream130160 (KEP-5007): pools with a device that has binding conditions are tried after all others,
// whose devices need no waiting. Within a pool the order stays that of the driver.
func TestUpstream130160(t *testing.T) {
	s := dropInCase(
		onNode("a", b.Device("plain"), b.Device("conditional").BindingCondition("ready")),
		onNode("b", b.Device("conditional").BindingCondition("ready"), b.Device("plain")),
		onNode("c", b.Device("plain")))
	s.features.DeviceBindingAndStatus = true
	s.claims = objects([]*b.ClaimBuilder{wants(4)})
	checkBug(t, s, "gpu=c/plain", "gpu=a/plain", "gpu=a/conditional", "gpu=b/conditional")

	// The order is the same where conditions are not supported, only their devices are left out.
	s.features.DeviceBindingAndStatus = false
	s.claims = objects([]*b.ClaimBuilder{wants(3)})
	checkBug(t, s, "gpu=c/plain", "gpu=a/plain", "gpu=b/plain")
}
