package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// TestDriverStatusIsKept: what a driver reports goes into the object that the plugin
// writes as well. Whatever comes between a read of the plugin and its write must stay.
func TestDriverStatusIsKept(t *testing.T) {
	t.Parallel()
	allocated := with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"), reservedFor("other"))
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		do    func(f *fixture)
		want  []string // consumers
	}{
		"reservation": {
			claim: allocated, want: []string{"other", "p"},
			do: func(f *fixture) {
				f.fail(fault{on: "update/status", before: func() { f.changeClaim("c", report(attached)) }})
				require.Empty(f.t, f.schedule(newPod("p", uses("c"))).phase)
			},
		},
		"write of its own": {
			claim: with(allocated, reservedFor("p")), want: []string{"other", "p"},
			do: func(f *fixture) {
				f.fail(fault{on: "update", before: func() { f.changeClaim("c", report(attached)) }})
				require.Empty(f.t, f.schedule(newPod("p", uses("c"))).phase)
			},
		},
		"reservation rolled back": {
			claim: allocated, want: []string{"other"},
			do: func(f *fixture) {
				a := f.bound(newPod("p", uses("c")), "n1")
				f.fail(fault{on: "update/status", before: func() { f.changeClaim("c", report(attached)) }})
				a.unreserve("n1")
			},
		},
		"released, but others use it": {
			claim: gpus("c", 1).Obj(), want: []string{"other"},
			do: func(f *fixture) {
				a := f.bound(newPod("p", uses("c")), "n1")
				f.changeClaim("c", reservedFor("other"))
				f.fail(fault{on: "update/status", before: func() { f.changeClaim("c", report(attached)) }})
				a.unreserve("n1")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), test.claim), func(t *testing.T, f *fixture) {
				test.do(f)
				require.Empty(t, f.faults, "the driver did not come in between")
				require.Equal(t, test.want, consumerNames(f.claim("c")))
				require.Len(t, f.claim("c").Status.Devices, 1)
				require.Equal(t, attached, f.claim("c").Status.Devices[0].Conditions[0].Type)
			})
		})
	}
}

// TestDriverStatusGoesWithTheAllocation: the server does not accept a report about
// devices that the claim does not have any more.
func TestDriverStatusGoesWithTheAllocation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		do    func(f *fixture)
	}{
		"released": {
			claim: gpus("c", 1).Obj(),
			do: func(f *fixture) {
				a := f.bound(newPod("p", uses("c")), "n1")
				f.fail(fault{on: "update/status", before: func() { f.changeClaim("c", report(attached)) }})
				a.unreserve("n1")
			},
		},
		"deallocated": {
			claim: with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone")),
			do: func(f *fixture) {
				f.fail(fault{on: "update/status", before: func() { f.changeClaim("c", report(attached)) }})
				require.Equal(f.t, "Filter", f.schedule(newPod("p", uses("c"))).phase)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), test.claim), func(t *testing.T, f *fixture) {
				test.do(f)
				require.Empty(t, f.faults, "the driver did not come in between")
				require.Nil(t, f.claim("c").Status.Allocation)
				require.Empty(t, f.claim("c").Status.Devices)
			})
		})
	}
}

// TestNoTimestampWithoutGate: the field belongs to the gate.
func TestNoTimestampWithoutGate(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		f.pl.commits.Writer = write.New(f.client, write.Options{WithoutTimestamp: true})
		require.Empty(t, f.schedule(newPod("p", uses("c"))).phase)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
		require.Nil(t, f.claim("c").Status.Allocation.AllocationTimestamp)
	})
}
