package quartermaster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// conflictWorld has one node with two GPUs; pod p would get the first one.
func conflictWorld() []runtime.Object {
	return plus(gpuNodes(2, "n1"), gpus("c", 1).Obj(), gpus("conflicting", 1).Obj(), newPod("p", uses("c")))
}

// beforeOurs runs a function right before the server handles the plugin's status update.
func (f *fixture) beforeOurs(do func()) {
	f.fail(fault{on: "update/status", claim: "c", before: do})
}

// otherInstanceAllocates writes a claim like another instance of the plugin.
func (f *fixture) otherInstanceAllocates(claim, pool, device string, edits ...func(*resourceapi.ResourceClaim)) {
	stored := f.claim(claim)
	allocated := stored.DeepCopy()
	allocate(pool, device)(allocated)
	recordManager(stored, allocated)
	allocated.ManagedFields = stored.ManagedFields
	f.replace(with(allocated, edits...))
}

func TestEarlierClaimWins(t *testing.T) {
	t.Parallel()
	inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
		f.beforeOurs(func() { f.otherInstanceAllocates("conflicting", "n1", "gpu-0") })
		result := f.schedule(f.pod("p"))
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
		require.Contains(t, result.text(), "claim default/conflicting was allocated device gpu-0")
		require.Contains(t, result.text(), "first")
		require.Nil(t, f.claim("c").Status.Allocation)
		require.Empty(t, f.claim("c").Status.ReservedFor)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("conflicting")), "not ours to touch")

		f.settle()
		require.Empty(t, f.schedule(f.pod("p")).phase)
		require.Equal(t, []string{"n1/gpu-1"}, deviceNames(f.claim("c")))
	})
}

// TestJoinedClaimIsChecked: a pod that only joins an allocated claim must not be bound
// either, and leaves it to the others to clear it.
func TestJoinedClaimIsChecked(t *testing.T) {
	t.Parallel()
	objects := plus(conflictWorld(), newPod("joins", uses("c")))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.otherInstanceAllocates("conflicting", "n1", "gpu-0")
		f.otherInstanceAllocates("c", "n1", "gpu-0")
		f.changeClaim("c", reservedFor("p"))
		f.settle()
		result := f.schedule(f.pod("joins"))
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")), "in use by p, which has to yield itself")
	})
}

// TestLostClaimInUse: a pod on a node uses a claim that has lost a conflict, so the claim does not yield. No other pod is tried with
// it until the conflict ends: each attempt would fail, and wake pods that wait.
func TestLostClaimInUse(t *testing.T) {
	t.Parallel()
	objects := plus(conflictWorld(), boundTo(newPod("runs", uses("c")), "n1"), newPod("joins", uses("c")))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.otherInstanceAllocates("conflicting", "n1", "gpu-0")
		f.otherInstanceAllocates("c", "n1", "gpu-0")
		f.changeClaim("c", reservedFor("runs"))
		f.settle()
		result := f.schedule(f.pod("joins"))
		require.Equal(t, "PreFilter", result.phase)
		require.True(t, result.status.IsRejected())
		require.Contains(t, result.text(), "already allocated to another claim")
		require.NotContains(t, result.text(), ",")
		f.changeClaim("conflicting", func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation = nil })
		f.settle()
		require.Empty(t, f.schedule(f.pod("joins")).phase)
	})
}

// TestLaterClaimOfOursYields: its scheduler checks too, so this one need not yield or wait.
func TestLaterClaimOfOursYields(t *testing.T) {
	t.Parallel()
	inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
		a := f.mustBegin(f.pod("p"))
		a.filter()
		require.Empty(t, a.reserve("n1").Message())
		start := time.Now()
		require.Empty(t, a.preBind("n1").Message())
		f.otherInstanceAllocates("conflicting", "n1", "gpu-0")
		f.settle()
		require.Less(t, time.Since(start), f.pl.args.SettleTime.Duration, "alone among instances of ours nobody waits")
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
	})
}

// TestReleaseFails: the server is down when the claim must be released. Unreserve undoes the write later.
func TestReleaseFails(t *testing.T) {
	t.Parallel()
	inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
		f.beforeOurs(func() {
			f.otherInstanceAllocates("conflicting", "n1", "gpu-0")
			f.fail(fault{on: "update/status", claim: "c", err: forbidden()})
		})
		result := f.schedule(f.pod("p"))
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
		require.Contains(t, result.text(), "releasing it")
		time.Sleep(2 * commit.UndoInterval)
		f.settle()
		require.Nil(t, f.claim("c").Status.Allocation, "Unreserve has done it")
		require.Empty(t, consumerNames(f.claim("c")))
	})
}

// TestNotSeen: without the watch, conflicts are unknown.
func TestNotSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, conflictWorld()...)
		s.silenceClaims()
		f := newFixture(t, s, "default")
		f.start()
		result := f.schedule(f.pod("p"))
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "within 30s the watch of claims did not show that")
		require.Empty(t, consumerNames(f.claim("c")), "rolled back")
	})
}

func podStatus(status v1.PodStatus) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Status = status }
}
