package quartermaster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// wakers makes a waker that counts, in a registry that knows all pods.
func wakers() (*waitingPods, *waker, *activator) {
	a := &activator{}
	pods := &waitingPods{pods: make(map[types.UID]*waitingPod), exists: func(*v1.Pod) bool { return true }}
	return pods, newWaker(klog.Background(), a.Activate), a
}

func TestWakeOnlyRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.begin(newPod("p"))
		waker.wake(p)
		require.Empty(t, woken.names(), "is being tried")
		waker.reject(p)
		require.Equal(t, []string{"default/p"}, woken.names(), "the event came in mid-attempt")
		waker.reject(p)
		require.Len(t, woken.names(), 1, "once for all nodes that reject it")
		waker.wake(p)
		require.Len(t, woken.names(), 2)

		pods.begin(newPod("p"))
		waker.reject(p)
		require.Len(t, woken.names(), 2, "what happened before the attempt does not count")
	})
}

// TestWakeHerd: many events in a row do not keep the queue busy with pods that were
// rejected a moment ago, and no pod is forgotten.
func TestWakeHerd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.begin(newPod("p"))
		waker.reject(p)
		for range 10 * wokenAtOnce {
			waker.wake(p)
		}
		require.Len(t, woken.names(), wokenAtOnce)
		waker.wakeAtOnce(p)
		require.Len(t, woken.names(), wokenAtOnce+1, "its own claim")
		time.Sleep(initialPause - time.Millisecond)
		synctest.Wait()
		require.Len(t, woken.names(), wokenAtOnce+1)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, woken.names(), wokenAtOnce+2)
	})
}

// TestWakeLaterNotNeeded: a pod that is tried again before its time, or ends, is not
// woken for what it has seen.
func TestWakeLaterNotNeeded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*waitingPods, *v1.Pod){
		"tried again": func(pods *waitingPods, pod *v1.Pod) { pods.begin(pod) },
		"gone":        func(pods *waitingPods, pod *v1.Pod) { pods.forget(pod.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pods, waker, woken := wakers()
				pod := newPod("p")
				p := pods.begin(pod)
				waker.reject(p)
				for range wokenAtOnce + 1 {
					waker.wake(p)
				}
				end(pods, pod)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, woken.names(), wokenAtOnce)
			})
		})
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for rejections, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000000: 10 * time.Second,
	} {
		require.Equal(t, want, pause(rejections), "after %d rejections", rejections)
	}
}

// TestWaitingPodsForgotten: nothing is kept of pods that are bound or gone, also if an
// attempt to schedule them began too late.
func TestWaitingPodsForgotten(t *testing.T) {
	t.Parallel()
	inCluster(t, nil, func(t *testing.T, f *fixture) {
		bound, deleted, never := newPod("bound", uses("c")), newPod("deleted", uses("c")), newPod("never", uses("c"))
		f.create(bound)
		f.create(deleted)
		f.settle()
		for _, pod := range []*v1.Pod{bound, deleted, never} {
			_, _ = f.begin(pod)
		}
		require.Len(t, f.pl.waiting.all(), 2)
		f.replace(newPod("bound", uses("c"), func(pod *v1.Pod) { pod.Spec.NodeName = "n1" }))
		f.remove(deleted)
		f.settle()
		require.Empty(t, f.pl.waiting.all())
		_, _ = f.begin(bound)
		require.Empty(t, f.pl.waiting.all())
	})
}

// TestGatedAfterFailure: an attempt failed while a claim was being deleted, and the pod
// is kept out of the queue since. The new claim of that name wakes it.
func TestGatedAfterFailure(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", err: forbidden()})
		require.Equal(t, "PreBind", f.schedule(f.pod("p")).phase)
		f.remove(gpus("c", 1).Obj())
		f.settle()
		f.forget()
		require.Equal(t, "PreEnqueue", f.schedule(f.pod("p")).phase)
		f.create(with(gpus("c", 1).Obj(), func(c *resourceapi.ResourceClaim) { c.UID = "another" }))
		f.settle()
		require.Contains(t, f.names(), "default/p")
		require.Empty(t, f.schedule(f.pod("p")).phase)
	})
}
