package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// TestOthersDoNotWaitForAllOfANamespace: however many pods it has, a pod of another one waits for a few attempts, and the scheduler has
// something to do all the time.
func TestOthersDoNotWaitForAllOfANamespace(t *testing.T) {
	for name, takes := range map[string]time.Duration{"by attempts": 40 * time.Millisecond, "by what is written": time.Millisecond} {
		inBubble(t, name, func(t *testing.T) {
			m := newModel(map[string]time.Duration{"costly": takes, "other": time.Millisecond}, "costly")
			m.writing = 50*time.Millisecond - takes
			m.known("other")
			go m.stream("other", 250*time.Millisecond, 60)
			go func() {
				for i := range 30 {
					m.create("costly", 10*i, 10)
					time.Sleep(50 * time.Millisecond) // Ten times as many as can be tried.
				}
			}()
			idle := m.run(time.Now().Add(16 * time.Second))
			require.Equal(t, 60, m.attempts("other"))
			require.LessOrEqual(t, slices.Max(m.waited["other"]), 5*50*time.Millisecond, "those that came before the first attempts were known")
			require.LessOrEqual(t, slices.Max(m.waited["other"][4:]), 3*50*time.Millisecond, "a few attempts")
			require.Equal(t, 300, m.attempts("costly"), "all are tried in the time that this takes")
			require.LessOrEqual(t, idle, 5*look)
			m.isQuiet(t)
		})
	}
}

// TestLoneNamespaceIsNotSlowed: nobody else waits, so all of its pods are tried one after the other.
func TestLoneNamespaceIsNotSlowed(t *testing.T) {
	for _, takes := range []time.Duration{2 * time.Millisecond, 6 * time.Millisecond, 100 * time.Millisecond, 2 * time.Second} {
		inBubble(t, takes.String(), func(t *testing.T) {
			m := newModel(map[string]time.Duration{"lone": takes})
			m.known("lone")
			m.create("lone", 0, 200)
			require.LessOrEqual(t, m.run(time.Now().Add(200*takes)), look)
			require.GreaterOrEqual(t, m.attempts("lone"), 199)
		})
	}
}

// TestOrdinaryPodsAreNotHeld, however many there are; those of a namespace of which nothing is known yet only until it is.
func TestOrdinaryPodsAreNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"ordinary": 4 * time.Millisecond, "new": 4 * time.Millisecond})
		m.known("ordinary")
		m.create("ordinary", 0, 1000)
		require.Zero(t, m.keeps())
		m.create("new", 0, 1000)
		require.NotZero(t, m.keeps())
		require.Zero(t, m.run(time.Now().Add(4*1010*time.Millisecond)))
		require.GreaterOrEqual(t, m.attempts("ordinary")+m.attempts("new"), 1005)
		m.isQuiet(t)
	})
}

// TestCostlyNamespacesShareTheTime: one has ten times the pods, or needs ten times as long for each. Neither gets more of the time.
func TestCostlyNamespacesShareTheTime(t *testing.T) {
	for name, takes := range map[string]time.Duration{"many": 30 * time.Millisecond, "long": 300 * time.Millisecond} {
		inBubble(t, name, func(t *testing.T) {
			m := newModel(map[string]time.Duration{"a": takes, "b": 30 * time.Millisecond, "other": time.Millisecond}, "a", "b")
			m.known("a", "b")
			m.create("a", 0, 20000)
			m.create("b", 0, 2000)
			go m.stream("other", 100*time.Millisecond, 390)
			m.run(time.Now().Add(40 * time.Second))
			a, b := time.Duration(m.attempts("a"))*takes, time.Duration(m.attempts("b"))*30*time.Millisecond
			require.InEpsilon(t, a, b, 0.2, "%s %s", a, b)
			require.Greater(t, a+b, 35*time.Second)
		})
	}
}

// TestOccasionalPodsComeNext: what their namespace has used while none of its pods waited does not count, so that a pod waits for a few attempts also
// where those for its namespace take long.
func TestOccasionalPodsComeNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"many": 6 * time.Millisecond, "few": 300 * time.Millisecond})
		m.known("many", "few")
		m.create("many", 0, 5000)
		go m.stream("few", 400*time.Millisecond, 10)
		m.run(time.Now().Add(11 * time.Second))
		require.Equal(t, 10, m.attempts("few"))
		require.LessOrEqual(t, slices.Max(m.waited["few"]), window+2*look)
	})
}

// TestPodsThatOthersRejectFirst: Turns is not told that the attempts for them begin. Others follow without a gap.
func TestPodsThatOthersRejectFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"unseen": 6 * time.Millisecond, "other": 6 * time.Millisecond}, "unseen", "other")
		m.known("unseen", "other")
		m.unseen = []string{"unseen"}
		m.create("unseen", 0, 100)
		m.create("other", 0, 100)
		require.LessOrEqual(t, m.run(time.Now().Add(2*time.Second)), 2*look)
		require.Equal(t, 200, m.attempts("unseen")+m.attempts("other"))
		m.isQuiet(t)
	})
}

// TestTimeWithoutAttemptsCountsForNobody: the last attempt was long ago, and took a moment. Others get no more time than that before the next one.
func TestTimeWithoutAttemptsCountsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": 20 * time.Millisecond, "cheap": time.Millisecond}, "costly")
		m.known("cheap", "costly")
		m.create("costly", 0, 1)
		m.run(time.Now().Add(5 * time.Second))
		m.create("cheap", 0, 1000)
		m.run(time.Now().Add(10 * time.Millisecond))
		m.add(podIn("costly", 1, 10))
		m.run(time.Now().Add(2 * time.Second))
		require.LessOrEqual(t, m.waited["costly"][1], 2*look)
	})
}

// TestImportantPodsOvertake: a pod of a higher priority is let in although pods of other namespaces are about to be tried.
func TestImportantPodsOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"a": 6 * time.Millisecond, "b": 6 * time.Millisecond})
		m.known("a", "b")
		m.create("a", 0, 2)
		m.add(podIn("b", 0, 0), podIn("b", 1, 10))
		time.Sleep(2 * look)
		require.Error(t, m.Held("b-00000"))
		require.NoError(t, m.Held("b-00001"))
	})
}

// TestHeldPodsAreNotForgotten: whoever else keeps the scheduler busy, and whatever is wrong with what is known of the queue, some of
// them are tried.
func TestHeldPodsAreNotForgotten(t *testing.T) {
	inBubble(t, "others never end", func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": 20 * time.Millisecond, "endless": 2 * time.Millisecond})
		m.known("costly", "endless")
		go m.stream("endless", time.Millisecond, 10_000)
		time.Sleep(time.Second)
		m.create("costly", 0, 33)
		m.run(time.Now().Add(10 * time.Second))
		require.Equal(t, 33, m.attempts("costly"))
	})
	inBubble(t, "the queue is never empty", func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": 20 * time.Millisecond})
		m.known("costly")
		m.broken = true
		m.create("costly", 0, 20)
		m.run(time.Now().Add(20 * (longestShut + look)))
		require.Equal(t, 20, m.attempts("costly"))
	})
	inBubble(t, "others are never tried", func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": 20 * time.Millisecond})
		m.known("costly")
		m.create("costly", 0, 5)
		time.Sleep(5 * (longestInside + look))
		require.Zero(t, m.keeps(), "no event ever came")
	})
}

// TestStandbyHoldsNothing: the queue of a process that does not schedule takes in all pods, also those that it held when it ceased to.
func TestStandbyHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"costly": 20 * time.Millisecond}, "costly")
		m.leading.Store(false)
		m.create("costly", 0, 100)
		require.Zero(t, m.keeps())
		m.leading.Store(true)
		m.run(time.Now().Add(time.Second))
		m.create("costly", 100, 500)
		require.Greater(t, m.keeps(), 400)
		m.run(time.Now().Add(time.Second))
		m.leading.Store(false)
		time.Sleep(10 * look)
		m.isQuiet(t)
		m.create("costly", 600, 100)
		require.Zero(t, m.keeps())
	})
}

// TestPriorityComesFirst within a namespace, and among those that are held.
func TestPriorityComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(map[string]time.Duration{"a": 50 * time.Millisecond, "b": 50 * time.Millisecond})
		m.known("a", "b")
		m.create("a", 0, 100)
		m.create("b", 0, 100)
		m.run(time.Now().Add(time.Second))
		important := podIn("b", 1000, 10)
		m.add(important)
		require.Error(t, m.Held(important.UID))
		m.run(time.Now().Add(150 * time.Millisecond))
		require.NoError(t, m.Held(important.UID))
		require.Contains(t, m.recent, important.UID)
	})
}

// TestTriedPodsKeepTheirBackOff: activating them ends that of the queue. Without anything else to do they are tried at once, as by the queue.
func TestTriedPodsKeepTheirBackOff(t *testing.T) {
	begin := func(t *testing.T) (*model, *v1.Pod) {
		again := podIn("costly", 1000, 0)
		m := newModel(map[string]time.Duration{"costly": 50 * time.Millisecond, "busy": time.Millisecond}, "costly")
		m.known("costly", "busy")
		m.try(again)
		m.try(again)
		m.known("busy")
		go m.stream("busy", time.Millisecond, 10_000)
		m.run(time.Now().Add(10 * time.Millisecond))
		m.create("busy", 20_000, 10)
		m.add(again)
		require.Error(t, m.Held(again.UID))
		return m, again
	}
	inBubble(t, "busy", func(t *testing.T) {
		m, _ := begin(t)
		m.run(time.Now().Add(2*FirstPause - time.Second/2))
		require.Zero(t, m.attempts("costly"))
		m.run(time.Now().Add(2 * time.Second))
		require.Equal(t, 1, m.attempts("costly"))
		m.run(time.Now().Add(10 * time.Second))
	})
	inBubble(t, "woken", func(t *testing.T) {
		m, again := begin(t)
		m.Turns.Activate(klog.Background(), map[string]*v1.Pod{"": again})
		require.Error(t, m.Held(again.UID))
		m.run(time.Now().Add(longestShut))
		require.Equal(t, 1, m.attempts("costly"))
		m.run(time.Now().Add(10 * time.Second))
	})
	inBubble(t, "deleted", func(t *testing.T) {
		m, again := begin(t)
		m.remove(again)
		require.NoError(t, m.Held(again.UID))
		m.run(time.Now().Add(12 * time.Second))
		m.isQuiet(t)
	})
	inBubble(t, "idle", func(t *testing.T) {
		m, again := newModel(map[string]time.Duration{"costly": 50 * time.Millisecond}, "costly"), podIn("costly", 1000, 0)
		m.known("costly")
		m.try(again)
		m.add(again)
		m.run(time.Now().Add(2 * look))
		require.Equal(t, 2, m.attempts("costly"))
	})
	inBubble(t, "after an error", func(t *testing.T) {
		m, again := newModel(map[string]time.Duration{"costly": 50 * time.Millisecond}, "costly"), podIn("costly", 1000, 0)
		m.known("costly")
		m.Begin(again, true)
		require.NoError(t, m.Hold(again))
	})
	inBubble(t, "long ago", func(t *testing.T) {
		m, again := newModel(map[string]time.Duration{"costly": 50 * time.Millisecond}, "costly"), podIn("costly", 1000, 0)
		m.try(again)
		time.Sleep(2*backoff + time.Second)
		m.known("costly")
		time.Sleep(2*backoff + time.Second)
		m.known("costly")
		m.create("costly", 0, 100)
		m.add(again)
		require.False(t, m.held[again.UID].isLater)
		m.run(time.Now().Add(6 * time.Second))
		m.isQuiet(t)
	})
}

// TestTurnsAtRandom: pods of all kinds come and go, are kept out by others, and the process leads or does not. While some are held
// and it leads, one is let in every 2*longestShut; in the end nothing is held.
func TestTurnsAtRandom(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		inBubble(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 39))
			m := newModel(map[string]time.Duration{
				"a": time.Duration(r.IntN(100)) * time.Millisecond, "b": time.Duration(r.IntN(30)) * time.Millisecond,
				"c": time.Duration(r.IntN(8)) * time.Millisecond, "d": time.Duration(r.IntN(3)) * time.Millisecond,
			}, "a", "c")
			m.writing = time.Duration(r.IntN(20)) * time.Millisecond
			end, created := time.Now().Add(30*time.Second), 0
			var pods []*v1.Pod
			go func() {
				for time.Now().Before(end) {
					time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
					switch r.IntN(10) {
					case 0:
						m.leading.Store(r.IntN(2) == 0)
					case 1:
						if len(pods) > 0 {
							m.remove(pods[r.IntN(len(pods))])
						}
					case 9: // Events wake pods that were tried.
						for range min(len(pods), 20) {
							pod := pods[r.IntN(len(pods))]
							m.lock.Lock()
							if !slices.Contains(m.active, pod) {
								m.kept[pod.UID] = pod
							}
							m.lock.Unlock()
							m.Turns.Activate(klog.Background(), map[string]*v1.Pod{"": pod})
						}
					case 2: // Something else keeps pods out that were let in, or queues them again.
						if len(pods) > 0 {
							pod := pods[r.IntN(len(pods))]
							m.remove(pod)
							if r.IntN(2) == 0 {
								m.add(pod)
							}
						}
					default:
						namespace := string(rune('a' + r.IntN(4)))
						for range r.IntN(12) {
							pod := podIn(namespace, created, int32(r.IntN(2)))
							created++
							pods = append(pods, pod)
							m.add(pod)
						}
					}
				}
			}()
			go func() { // What the queue is asked for in each moment.
				for since := time.Now(); time.Now().Before(end); time.Sleep(time.Millisecond) {
					m.lock.Lock()
					switch {
					case m.waits() == 0:
						since = time.Now()
					case m.letIn.After(since):
						since = m.letIn
					}
					if waits := time.Since(since); waits > 2*(longestShut+look) {
						t.Errorf("%d pods are kept and none was let in for %s", len(m.kept), waits)
					}
					m.lock.Unlock()
				}
			}()
			m.run(end)
			m.leading.Store(true)
			m.run(time.Now().Add(2 * time.Minute))
			m.isQuiet(t)
		})
	}
}

// TestNamespacesAreForgotten: what is remembered does not grow with the number of namespaces and pods that there ever were.
func TestNamespacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(nil)
		for i := range 3 * manyNamespaces {
			m.try(podIn(fmt.Sprintf("n%d", i), 0, 0))
			time.Sleep(20 * time.Millisecond)
		}
		require.LessOrEqual(t, len(m.namespaces), manyNamespaces)
		require.LessOrEqual(t, len(m.recent)+len(m.before), int(2*backoff/(20*time.Millisecond))+2)
		require.Empty(t, m.inside)
	})
}
