package quartermaster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const turnText = "tried in turn with pods of other namespaces"

// busyWorld has pods that need more devices than there are.
func busyWorld(pods int) []runtime.Object {
	objects := gpuNodes(1, "n1")
	for i := range pods {
		name := fmt.Sprintf("p%02d", i)
		objects = append(objects, gpus(name, 9).Obj(), newPod(name, uses(name)))
	}
	return objects
}

// busyQueue is a scheduling queue in which many pods wait.
type busyQueue struct{ schedulingQueue }

func (busyQueue) Active() int { return 100 }

// busy makes other pods appear to wait all the time, and records that the namespace's pods find no node.
func (f *fixture) busy() {
	f.pl.state.turns = queue.NewTurns(busyQueue{newSchedulingQueue(f.pl.handle, f.pl.state)})
	*f.pl.waker = *queue.NewWaker(klog.Background(), f.pl.state.turns)
	for range 2 {
		require.NotEmpty(f.t, f.schedule(f.pod("p00")).phase)
	}
	f.settle()
	f.forget()
}

// TestPodsTakeTurns: pods of a namespace that find no node are held while others wait, and activated one after the
// other. Pods of gangs and those with scheduling gates are not held.
func TestPodsTakeTurns(t *testing.T) {
	t.Parallel()
	const pods = 40
	inCluster(t, busyWorld(pods), func(t *testing.T, f *fixture) {
		f.busy()
		held := 0
		for i := range pods {
			if !f.pl.PreEnqueue(f.ctx, f.pod(fmt.Sprintf("p%02d", i))).IsSuccess() {
				held++
			}
		}
		require.Greater(t, held, pods/2)
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("member", builder.InGroup("g"))).IsSuccess(), "its group is queued as a whole")
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("member", func(pod *v1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"} })).IsSuccess(),
			"its gang is planned as a whole")
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("gated", func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })).IsSuccess())

		last := fmt.Sprintf("p%02d", pods-1)
		f.afterDelay()
		require.Nil(t, scheduled(f.pod(last)), "too early")
		time.Sleep(33 * time.Second)
		f.settle()
		require.Contains(t, scheduled(f.pod(last)).Message, turnText)
		time.Sleep(time.Minute)
		f.settle()
		require.GreaterOrEqual(t, len(slices.Compact(f.names())), held, "nothing but timers have called them")
	})
}

// TestHeldPodsAreTriedOnce: a pod that was tried in turn is not tried again until something happens, even if it has no claims: the
// gate does not know how many attempts of such a pod have begun.
func TestHeldPodsAreTriedOnce(t *testing.T) {
	t.Parallel()
	inCluster(t, append(busyWorld(2), newPod("plain")), func(t *testing.T, f *fixture) {
		f.busy()
		time.Sleep(time.Minute)
		f.forget()
		for _, name := range []string{"p01", "plain"} {
			for i := range 2 {
				pod := f.pod(name)
				before := newPod(fmt.Sprintf("before-%s-%d", name, i))
				require.True(t, f.pl.PreEnqueue(f.ctx, before).IsSuccess())
				f.gated(name)
				f.forget()
				f.pl.state.turns.Forget(before.UID)
				time.Sleep(10 * time.Second)
				f.settle()
				require.Equal(t, []string{"default/" + name}, f.names(), "it is its turn")
				a, _ := f.begin(pod)
				f.pl.PostFilter(f.ctx, a.state, pod, nil)
				f.forget()
				time.Sleep(time.Minute)
				f.settle()
				require.Empty(t, f.names(), "nothing has happened")
			}
		}
	})
}

// TestStandbyHoldsNoPods: a standby tries no pods.
func TestStandbyHoldsNoPods(t *testing.T) {
	t.Parallel()
	const pods = 40
	inCluster(t, busyWorld(pods), func(t *testing.T, f *fixture) {
		lead := f.elected()
		lead()
		f.busy()
		time.Sleep(leaseDuration)
		for i := range pods {
			require.True(t, f.pl.PreEnqueue(f.ctx, f.pod(fmt.Sprintf("p%02d", i))).IsSuccess())
		}
	})
}

// TestHeldPodsAreForgotten when they are deleted, and when their claims are.
func TestHeldPodsAreForgotten(t *testing.T) {
	t.Parallel()
	const pods = 10
	inCluster(t, busyWorld(pods), func(t *testing.T, f *fixture) {
		f.busy()
		for i := range pods {
			f.pl.PreEnqueue(f.ctx, f.pod(fmt.Sprintf("p%02d", i)))
		}
		deleted, lacking := f.pod("p08"), f.pod("p09")
		require.Error(t, f.pl.state.turns.Held(deleted.UID))
		require.Error(t, f.pl.state.turns.Held(lacking.UID))
		f.remove(deleted)
		f.remove(gpus("p09", 9).Obj())
		f.settle()
		require.NoError(t, f.pl.state.turns.Held(deleted.UID))
		require.Contains(t, f.pl.PreEnqueue(f.ctx, lacking).Message(), "does not exist")
		require.NoError(t, f.pl.state.turns.Held(lacking.UID))
		time.Sleep(time.Minute)
		f.settle()
	})
}
