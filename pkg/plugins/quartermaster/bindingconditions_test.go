package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// TestBrokenAllocation: an allocation that is there and will not get ready. It is
// deallocated if nobody else uses it, and the next attempt begins anew.
func TestBrokenAllocation(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute // the default
	tests := map[string]struct {
		ago    time.Duration
		edits  []func(*resourceapi.ResourceClaim)
		reason string // why the node does not do, "" if it does
		freed  bool
	}{
		"waitable":                   {ago: timeout - time.Minute},
		"too late":                   {ago: timeout + time.Minute, reason: "device binding timeout: claim default/c: device gpu.example.com/n1/gpu-0 lacks attached within 10m0s", freed: true},
		"failed":                     {ago: time.Minute, edits: edits(report(broken)), reason: "device binding failed: claim default/c", freed: true},
		"late, then ready":           {ago: time.Hour, edits: edits(report(attached))},
		"too late, for the pod":      {ago: time.Hour, edits: edits(reservedFor("p")), reason: "device binding timeout", freed: true},
		"too late, others use it":    {ago: time.Hour, edits: edits(reservedFor("other")), reason: "device binding timeout"},
		"failed, others use it, too": {ago: time.Hour, edits: edits(report(broken), reservedFor("p", "other")), reason: "device binding failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(fabricNodes("n1", "n2"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				f.create(attachable(test.ago, test.edits...))
				f.settle()
				a := f.mustBegin(f.pod("p")).filter()
				if test.reason == "" {
					require.Equal(t, []string{"n1"}, a.feasible)
					return
				}
				require.Empty(t, a.feasible)
				require.Contains(t, a.reasons["n1"], test.reason)
				require.Equal(t, a.reasons["n1"], a.reasons["n2"], "the same for all nodes")
				_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
				require.Equal(t, test.freed, status.IsSuccess(), "%v", status)
				f.settle()
				require.Equal(t, test.freed, f.claim("c").Status.Allocation == nil)
				if test.freed {
					require.Contains(t, status.Message(), test.reason)
					require.Empty(t, f.claim("c").Status.Devices)
					require.Contains(t, f.activator.names(), "default/p", "its update wakes the pod")
				}
			})
		})
	}
}

func edits(list ...func(*resourceapi.ResourceClaim)) []func(*resourceapi.ResourceClaim) { return list }

// TestBrokenAllocationIsLetGo: who waits for others to leave a broken claim is woken when
// they do.
func TestBrokenAllocationIsLetGo(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes("n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.create(attachable(time.Hour, reservedFor("other")))
		f.settle()
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.changeClaim("c", func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })
		f.settle()
		require.Contains(t, f.activator.names(), "default/p")
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.settle()
		require.Nil(t, f.claim("c").Status.Allocation)
	})
}
