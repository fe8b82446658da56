package quartermaster

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// nicNode has a NIC of 10 units of bandwidth that any number of claims can share.
func nicNode() []runtime.Object {
	return []runtime.Object{builder.Class("gpu"), builder.Node("n1"),
		builder.NodeSlice("n1", builder.Device("nic").Shared().Capacity("bandwidth", "10")).Obj()}
}

func wantsBandwidth(name, amount string) *resourceapi.ResourceClaim {
	return builder.Claim(name, builder.Request("r", "gpu").Capacity("bandwidth", amount)).Obj()
}

// partitionedNode has a GPU whose memory of 40 can be had whole or in two halves.
func partitionedNode() []runtime.Object {
	return []runtime.Object{builder.Class("gpu"), builder.Node("n1"),
		builder.Slice("n1-counters").OnNode("n1").InPool("n1", 1, 2).Counters("gpu-0", "memory", "40").Obj(),
		builder.Slice("n1-devices").OnNode("n1").InPool("n1", 1, 2).Devices(
			builder.Device("whole").Attr("size", "whole").Consumes("gpu-0", "memory", "40"),
			builder.Device("half-0").Attr("size", "half").Consumes("gpu-0", "memory", "20"),
			builder.Device("half-1").Attr("size", "half").Consumes("gpu-0", "memory", "20")).Obj()}
}

func wantsPartition(name, size string) *resourceapi.ResourceClaim {
	return builder.Claim(name, builder.Request("r", "gpu").
		Where(`device.attributes["gpu.example.com"].size == "`+size+`"`)).Obj()
}

func TestShareOfDevice(t *testing.T) {
	t.Parallel()
	objects := plus(nicNode(), wantsBandwidth("a", "4"), wantsBandwidth("b", "6"), wantsBandwidth("c", "1"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		first := f.mustBegin(newPod("first", uses("a"))).filter()
		require.NoError(t, first.reserve("n1").AsError())
		require.Empty(t, f.schedule(newPod("second", uses("b"))).phase, "fits beside what is in flight")
		require.Contains(t, f.schedule(newPod("third", uses("c"))).reasons["n1"], "bandwidth", "what is in flight counts")
		require.NoError(t, first.preBind("n1").AsError())

		shares := make(map[string]string) // amount by share
		for _, claim := range []string{"a", "b"} {
			result := f.claim(claim).Status.Allocation.Devices.Results[0]
			require.NotNil(t, result.ShareID)
			consumed := result.ConsumedCapacity["bandwidth"]
			shares[string(*result.ShareID)] = consumed.String()
		}
		require.Equal(t, []string{"4", "6"}, slices.Sorted(maps.Values(shares)), "each has a share of its own")

		// One share is released.
		f.changeClaim("b", deallocate)
		f.settle()
		require.Empty(t, f.schedule(newPod("third", uses("c"))).phase)
	})
}

// TestPlansFromOneView: two plans that were made before either was put in flight, as it
// happens for the pods of a group.
func TestPlansFromOneView(t *testing.T) {
	t.Parallel()
	prefer := func(name string, request *builder.RequestBuilder) *resourceapi.ResourceClaim {
		return builder.Claim(name, builder.FirstAvailable("r", request)).Obj()
	}
	partition := func(size string) *builder.RequestBuilder {
		return builder.Request("only", "gpu").Where(`device.attributes["gpu.example.com"].size == "` + size + `"`)
	}
	tests := map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"capacity": {plus(nicNode(),
			prefer("a", builder.Request("only", "gpu").Capacity("bandwidth", "6")),
			prefer("b", builder.Request("only", "gpu").Capacity("bandwidth", "5"))), "too little is left of capacity bandwidth"},
		"counter": {plus(partitionedNode(), prefer("a", partition("half")), prefer("b", partition("whole"))),
			"too little is left of counter gpu-0/memory"},
		"device": {plus(gpuNodes(1, "n1"),
			prefer("a", builder.Request("only", "gpu")), prefer("b", builder.Request("only", "gpu"))), "claim default/a holds it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, test.objects, func(t *testing.T, f *fixture) {
				first := f.mustBegin(newPod("first", uses("a"))).filter()
				second := f.mustBegin(newPod("second", uses("b"))).filter()
				require.Equal(t, []string{"n1"}, second.feasible)
				c, err := cycleOf(second.state)
				require.NoError(t, err)
				c.setPlan("n1", c.found["n1"])
				require.NoError(t, first.reserve("n1").AsError())
				require.ErrorContains(t, second.reserve("n1").AsError(), test.want)
				require.Equal(t, 1, f.pl.state.Ledger.InFlightCount(), "that of the first")
				require.NoError(t, first.preBind("n1").AsError())
				require.Nil(t, f.claim("b").Status.Allocation)
			})
		})
	}
}

// TestPartition: what partitions draw from counters counts while they are in flight.
func TestPartition(t *testing.T) {
	t.Parallel()
	objects := plus(partitionedNode(), wantsPartition("a", "half"), wantsPartition("b", "half"), wantsPartition("c", "whole"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		first := f.mustBegin(newPod("first", uses("a"))).filter()
		require.NoError(t, first.reserve("n1").AsError())
		require.Contains(t, f.schedule(newPod("third", uses("c"))).reasons["n1"], "counter")
		require.Empty(t, f.schedule(newPod("second", uses("b"))).phase)
		first.unreserve("n1")
		require.Contains(t, f.schedule(newPod("third", uses("c"))).reasons["n1"], "counter", "one half is still in use")
		f.changeClaim("b", deallocate)
		f.settle()
		require.Empty(t, f.schedule(newPod("third", uses("c"))).phase)
	})
}

// TestRestartWithSharesAndCounters: after a restart the same is in use as before.
func TestRestartWithSharesAndCounters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		objects        []runtime.Object
		before         []string
		exactly, after string // a claim that takes what is left, and one that does not fit any more
	}{
		"shares": {plus(nicNode(), wantsBandwidth("a", "3"), wantsBandwidth("b", "3"), wantsBandwidth("rest", "4"), wantsBandwidth("more", "1")),
			[]string{"a", "b"}, "rest", "more"},
		"counters": {plus(partitionedNode(), wantsPartition("a", "half"), wantsPartition("rest", "half"), wantsPartition("more", "whole")),
			[]string{"a"}, "rest", "more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, test.objects, func(t *testing.T, f *fixture) {
				for _, claim := range test.before {
					f.bound(newPod("pod-"+claim, uses(claim)), "n1")
				}
				f = f.restart()
				require.Empty(t, f.schedule(newPod("exactly", uses(test.exactly))).phase)
				require.Equal(t, "Filter", f.schedule(newPod("after", uses(test.after))).phase)
			})
		})
	}
}

// TestDeviceThatWasShared: its driver no longer offers it for sharing. While a claim has a share, no claim gets the
// whole device, whatever the share has recorded.
func TestDeviceThatWasShared(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.NodeSlice("n1", builder.Device("nic").Shared()).Obj(),
		gpus("a", 1).Obj(), gpus("b", 1).Obj()}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.bound(newPod("first", uses("a")), "n1")
		require.NotNil(t, f.claim("a").Status.Allocation.Devices.Results[0].ShareID)
		f.replace(builder.NodeSlice("n1", builder.Device("nic")).Obj())
		f.settle()
		require.Contains(t, f.schedule(newPod("second", uses("b"))).reasons["n1"], "held by another claim")
		f.changeClaim("a", deallocate)
		f.settle()
		require.Empty(t, f.schedule(newPod("second", uses("b"))).phase)
		require.Nil(t, f.claim("b").Status.Allocation.Devices.Results[0].ShareID)
	})
}
