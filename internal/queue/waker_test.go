package queue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// activator notes the pods that are activated.
type activator struct {
	mutex     sync.Mutex
	activated []string
}

func (a *activator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for name := range pods {
		a.activated = append(a.activated, name)
	}
}

// activated is called when pods are activated.
type activated func()

func (a activated) Activate(klog.Logger, map[string]*v1.Pod) { a() }

func (a *activator) names() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.activated
}

// wakers makes a waker that counts, in a registry that knows all pods.
func wakers() (*Pods, *Waker, *activator) {
	a := &activator{}
	pods := &Pods{pods: make(map[types.UID]*Pod), lacking: sets.New[types.UID](), grouped: sets.New[types.UID](), exists: func(*v1.Pod) bool { return true }}
	return pods, NewWaker(klog.Background(), a), a
}

func TestWakeOnlyRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.Begin(builder.Pod("p"))
		waker.Wake(p)
		require.Empty(t, woken.names(), "is being tried")
		waker.Reject(p)
		require.Equal(t, []string{"default/p"}, woken.names(), "the event came in mid-attempt")
		waker.Reject(p)
		require.Len(t, woken.names(), 1, "once for all nodes that reject it")
		waker.Wake(p)
		require.Len(t, woken.names(), 2)

		pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		require.Len(t, woken.names(), 2, "what happened before the attempt does not count")
	})
}

// TestWakeHerd: many events in a row do not keep the queue busy with pods that were
// rejected a moment ago, and no pod is forgotten.
func TestWakeHerd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		for range 10 * WokenAtOnce {
			waker.Wake(p)
		}
		require.Len(t, woken.names(), WokenAtOnce)
		waker.WakeAtOnce(p)
		require.Len(t, woken.names(), WokenAtOnce+1, "its own claim")
		time.Sleep(FirstPause - time.Millisecond)
		synctest.Wait()
		require.Len(t, woken.names(), WokenAtOnce+1)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, woken.names(), WokenAtOnce+2)
	})
}

// TestWakeLaterNotNeeded: a pod that is tried again before its time, or ends, is not
// woken for what it has seen.
func TestWakeLaterNotNeeded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Pods, *v1.Pod){
		"tried again": func(pods *Pods, pod *v1.Pod) { pods.Begin(pod) },
		"gone":        func(pods *Pods, pod *v1.Pod) { pods.Forget(pod.UID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pods, waker, woken := wakers()
				pod := builder.Pod("p")
				p := pods.Begin(pod)
				waker.Reject(p)
				for range WokenAtOnce + 1 {
					waker.Wake(p)
				}
				end(pods, pod)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, woken.names(), WokenAtOnce)
			})
		})
	}
}

// Who is passed over because it is woken later anyway must be woken later.
func TestIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.Begin(builder.Pod("p"))
		waker.WakeAfterPause(p)
		require.False(t, p.isDue(time.Now()), "is being tried")
		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		require.False(t, p.isDue(time.Now()), "nobody has woken it")
		waker.WakeAfterPause(p)
		require.True(t, p.isDue(time.Now()))
		require.Empty(t, woken.names())
		time.Sleep(FirstPause)
		synctest.Wait()
		require.False(t, p.isDue(time.Now()))
		require.Len(t, woken.names(), 1)

		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		waker.WakeIn(p, LongestPause)
		require.False(t, p.isDue(time.Now()), "its pause is over long before")
		waker.WakeAfterPause(p)
		require.True(t, p.isDue(time.Now()))
		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		waker.WakeIn(p, LongestPause)
		time.Sleep(LongestPause / 2)
		require.False(t, p.isDue(time.Now()), "its pause is over: an event wakes it now")
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	for rejections, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000000: 10 * time.Second,
	} {
		require.Equal(t, want, Pause(rejections), "after %d rejections", rejections)
	}
}

// TestPassesOfUntriedPods: the attempt for a group ends as soon as too few of its pods fit, so the others are not tried. If
// two groups wake each other through such pods, the bound holds as well.
func TestPassesOfUntriedPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.Begin(builder.Pod("p"))
		time.Sleep(time.Hour)
		for range 100 {
			p.Queue()
			waker.WakeAfterPause(p)
		}
		require.LessOrEqual(t, len(woken.names()), passesInARow+1)
		time.Sleep(2 * passAgain)
		synctest.Wait()
		require.Greater(t, len(woken.names()), passesInARow, "it is not forgotten")
	})
}

// ofAnotherGroup names the case of two groups that wake each other: the pods of a group that does not fit as a whole were not
// rejected themselves, so they have no pause.
const ofAnotherGroup = "an event of another group's attempt"

// TestPasses: a pod whose own attempts wake it is not tried without end, and not forgotten either. Whoever wakes it, in whichever
// way, meets the same bound.
func TestPasses(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(*Waker, *Pod){
		"an event":             (*Waker).Wake,
		"an event of its own":  (*Waker).WakeAtOnce,
		"a conflict":           (*Waker).TryAgain,
		"several, all at once": func(w *Waker, p *Pod) { w.Wake(p); w.WakeAtOnce(p); w.TryAgain(p) },
		ofAnotherGroup:         (*Waker).WakeAfterPause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tries int
				pods, pod := &Pods{pods: make(map[types.UID]*Pod), lacking: sets.New[types.UID](), grouped: sets.New[types.UID](), exists: func(*v1.Pod) bool { return true }}, builder.Pod("p")
				active := make(chan struct{}, 1)
				waker := NewWaker(klog.Background(), activated(func() {
					select {
					case active <- struct{}{}:
					default:
					}
				}))
				end := time.After(time.Minute)
				for tries < 10*passesInARow {
					p := pods.Begin(pod)
					tries++
					if name != ofAnotherGroup {
						waker.Fail(p, "n1")
					}
					p.Queue()
					wake(waker, p)
					select {
					case <-active:
						continue
					case <-end:
					}
					break
				}
				require.Greater(t, tries, passesInARow, "it is tried at once at first")
				require.Less(t, tries, 2*passesInARow+int(time.Minute/passAgain), "and as often as the queue would have it tried then")
			})
		})
	}
}

// TestErrorsCountByThemselves: a pod that was rejected for long is tried soon after an error, as in the scheduling queue.
func TestErrorsCountByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, _ := wakers()
		var p *Pod
		for range 10 {
			p = pods.Begin(builder.Pod("p"))
			waker.Reject(p)
		}
		require.Equal(t, LongestPause, p.rest(time.Now()))
		p = pods.Begin(builder.Pod("p"))
		waker.Fail(p, "n1")
		require.Equal(t, FirstPause, p.rest(time.Now()))
		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		require.Equal(t, LongestPause, p.rest(time.Now()))
	})
}

// TestPaused: a pod that always fails although it has a node may be queued at once some times, and then after its pause. One that is
// rejected is left to the scheduling queue.
func TestPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, _ := wakers()
		tries := 0
		var p *Pod
		for start := time.Now(); time.Since(start) < time.Minute; tries++ {
			p = pods.Begin(builder.Pod("p"))
			waker.Fail(p, "n1")
			p.Queue()
			rest := waker.Paused(p)
			require.Equal(t, rest, waker.Paused(p), "however often the queue asks")
			require.True(t, tries >= passesInARow || rest == 0, "attempt %d", tries)
			time.Sleep(rest)
			require.Zero(t, waker.Paused(p))
		}
		require.Greater(t, tries, passesInARow)
		require.LessOrEqual(t, tries, passesInARow+2*int(time.Minute/LongestPause))

		p = pods.Begin(builder.Pod("p"))
		waker.Fail(p, "n1")
		require.Zero(t, waker.Paused(p), "once more every ten seconds")
		p = pods.Begin(builder.Pod("p"))
		waker.Fail(p, "n1")
		require.Positive(t, waker.Paused(p))
		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		require.Zero(t, waker.Paused(p))
	})
}

// TestNominationThatOutlivesItsEnd: an attempt with a pod that does not show its nomination yet cannot end it on the server.
func TestNominationThatOutlivesItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods, waker, woken := wakers()
		p := pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		waker.Nominated(p)
		time.Sleep(time.Hour)
		require.Empty(t, woken.names(), "nominated by its latest attempt, or by somebody else")

		p = pods.Begin(builder.Pod("p"))
		waker.Reject(p)
		p.Unnominated()
		require.Empty(t, woken.names())
		waker.Nominated(p)
		time.Sleep(time.Hour)
		require.Len(t, woken.names(), 1)
		waker.Nominated(p)
		time.Sleep(time.Hour)
		require.Len(t, woken.names(), 1, "once")
	})
}
