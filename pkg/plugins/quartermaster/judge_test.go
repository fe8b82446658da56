package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestConflictOverADeviceThatIsNotKnownYet: another instance knows more of the pool than this one, and was first. It is
// unknown here what its device draws from counters, so the pod waits.
func TestConflictOverADeviceThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	counters, devices := partitions()
	for name, lost := range map[string]bool{"the driver publishes it": true, "it was withdrawn": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, overdrawnWorld(counters, devices), func(t *testing.T, f *fixture) {
				begin := time.Now()
				f.beforeOurs(func() { f.otherInstanceAllocates("conflicting", "n1", "new") })
				if lost {
					time.AfterFunc(time.Second, func() {
						next := builder.Slice("counters").InPool("n1", 2, 2).OnNode("n1").Counters("memory", "size", "40Gi").Obj()
						f.replace(next)
						f.replace(builder.Slice("partitions").InPool("n1", 2, 2).OnNode("n1").Devices(
							builder.Device("big").Consumes("memory", "size", "30Gi"), builder.Device("new").Consumes("memory", "size", "20Gi")).Obj())
					})
				}
				result := f.schedule(f.pod("p"))
				if !lost {
					require.Empty(t, result.text())
					require.Greater(t, time.Since(begin), 4*time.Second)
					return
				}
				require.Equal(t, "PreBind", result.phase)
				require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
				require.Contains(t, result.text(), "counter memory/size")
				require.Nil(t, f.claim("c").Status.Allocation, "released")
			})
		})
	}
}

// TestPoolThatWasNeverComplete: after a restart in the middle of an update of the pool, it is unknown what existing
// claims draw from counters. A pod that would join one of them does not pass.
func TestPoolThatWasNeverComplete(t *testing.T) {
	t.Parallel()
	counters, devices := partitions()
	inCluster(t, []runtime.Object{builder.Node("n1"), builder.Class("gpu"), gpus("c", 1).Obj(), gpus("conflicting", 1).Obj(),
		newPod("p", uses("c")), newPod("other"), devices}, func(t *testing.T, f *fixture) {
		f.otherInstanceAllocates("c", "n1", "small")
		f.changeClaim("c", reservedFor("other"))
		f.otherInstanceAllocates("conflicting", "n1", "big")
		f.settle()
		begin := time.Now()
		result := f.schedule(f.pod("p"))
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "1 of 2 slices of generation 1 is published")
		require.Contains(t, result.text(), "waited for that for at most 10s")
		require.GreaterOrEqual(t, time.Since(begin), commit.JudgeTimeout)
		require.Equal(t, []string{"other"}, consumerNames(f.claim("c")), "the reservation is rolled back")

		time.AfterFunc(time.Second, func() { f.create(counters) })
		result = f.schedule(f.pod("p"))
		require.Empty(t, result.text(), "c was first")
	})
}

// TestJoinAPodOnANode: a claim that a pod on a node uses was judged before that was bound. A pod that joins it need not wait for
// a pool that may never be complete again.
func TestJoinAPodOnANode(t *testing.T) {
	t.Parallel()
	_, devices := partitions()
	inCluster(t, []runtime.Object{builder.Node("n1"), builder.Class("gpu"), gpus("c", 1).Obj(), gpus("conflicting", 1).Obj(),
		newPod("p", uses("c")), boundTo(newPod("other", uses("c")), "n1"), devices}, func(t *testing.T, f *fixture) {
		f.otherInstanceAllocates("c", "n1", "small")
		f.changeClaim("c", reservedFor("other"))
		f.otherInstanceAllocates("conflicting", "n1", "big")
		f.settle()
		begin := time.Now()
		require.Empty(t, f.schedule(f.pod("p")).text())
		require.Less(t, time.Since(begin), commit.JudgeTimeout)
		require.Equal(t, []string{"other", "p"}, consumerNames(f.claim("c")))
	})
}
