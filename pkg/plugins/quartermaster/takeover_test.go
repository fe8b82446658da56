package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// realTakeoverPause is the default of takeoverPause.
const realTakeoverPause = time.Minute

// takesOver restarts the scheduler, with the pause of a real one.
func (f *fixture) takesOver() *fixture {
	again := f.restart()
	again.pl.takeover.Duration = realTakeoverPause
	return again
}

// TestFoundReservationIsLeftAlone: a process dies after it has sent a binding. The next one
// cannot tell which of two claims was first, and has to give one back, but not before the
// binding has arrived or cannot arrive any more.
func TestFoundReservationIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"the binding arrives": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
				require.Empty(t, f.schedule(f.pod("p")).text())
				f.otherInstanceAllocates("conflicting", "n1", "gpu-0")
				f = f.takesOver()
				for range 3 {
					result := f.schedule(f.pod("p"))
					require.Equal(t, "PreBind", result.phase)
					require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
					require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
					require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
					time.Sleep(10 * time.Second)
				}
				if arrives {
					bound := f.pod("p").DeepCopy()
					bound.Spec.NodeName = "n1"
					f.replace(bound)
				}
				f.settle()
				before := len(f.names())
				time.Sleep(realTakeoverPause)
				f.settle()
				require.Len(t, f.names(), before+1, "tried again after the pause")
				if arrives {
					require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
					return
				}
				require.Equal(t, "PreBind", f.schedule(f.pod("p")).phase)
				require.Nil(t, f.claim("c").Status.Allocation, "released")
			})
		})
	}
}

// TestOwnReservationIsReleasedAtOnce: what this process has written it can roll back.
func TestOwnReservationIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
		f.pl.takeover.Duration = realTakeoverPause
		f.beforeOurs(func() { f.otherInstanceAllocates("conflicting", "n1", "gpu-0") })
		require.Equal(t, "PreBind", f.schedule(f.pod("p")).phase)
		require.Nil(t, f.claim("c").Status.Allocation)
		require.Empty(t, consumerNames(f.claim("c")))
	})
}

// TestFoundReservationThatFitsNoNode: PostFilter does not free it before the pause is over.
func TestFoundReservationThatFitsNoNode(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(1, "n1"), newPod("p", uses("c")),
		with(gpus("c", 1).Obj(), allocate("gone", "gpu-0"), onNode("gone"), reservedFor("p")), builder.Node("n2"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.takeover.Duration = realTakeoverPause
		result := f.schedule(f.pod("p"))
		require.Equal(t, "Filter", result.phase)
		require.Contains(t, result.text(), "claim default/c was reserved for the pod by another process")
		require.NotNil(t, f.claim("c").Status.Allocation)

		f.settle()
		before := len(f.names())
		time.Sleep(realTakeoverPause)
		f.settle()
		require.Len(t, f.names(), before+1, "tried again after the pause")
		f.schedule(f.pod("p"))
		require.Nil(t, f.claim("c").Status.Allocation)
	})
}
