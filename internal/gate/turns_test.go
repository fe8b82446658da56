package gate

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// queue is a scheduler with a queue like kube-scheduler's: sorted by priority and by when pods were created, not by when
// they were activated.
type queue struct {
	*Turns
	mutex  sync.Mutex
	active []*v1.Pod
	// takes is how long attempts for pods of a namespace take, writing how long it takes to write why there is no node.
	takes map[string]time.Duration
	// rejects are namespaces whose pods get no node.
	rejects map[string]bool
	writing time.Duration
	// waited is from a pod's creation to its first attempt, tried are the namespaces in the order of attempts.
	waited map[string][]time.Duration
	tried  []string
	woken  int
}

func newQueue(takes map[string]time.Duration, rejects ...string) *queue {
	q := &queue{takes: takes, rejects: make(map[string]bool), waited: make(map[string][]time.Duration)}
	for _, namespace := range rejects {
		q.rejects[namespace] = true
	}
	q.Turns = NewTurns(clock.RealClock{}, func(pods map[string]*v1.Pod) {
		q.mutex.Lock()
		q.woken += len(pods)
		q.mutex.Unlock()
		for _, pod := range pods {
			q.add(pod)
		}
	})
	return q
}

func newPodIn(namespace string, number int, priority int32) *v1.Pod {
	name := fmt.Sprintf("%s-%05d", namespace, number)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()},
		Spec:       v1.PodSpec{Priority: ptr.To(priority)},
	}
}

// create adds pods of a namespace.
func (q *queue) create(namespace string, from, count int) {
	for i := range count {
		q.add(newPodIn(namespace, from+i, 0))
	}
}

// add is what the scheduling queue does with a pod that is new or activated.
func (q *queue) add(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.Queue(pod) == nil && !slices.Contains(q.active, pod) {
		q.active = append(q.active, pod)
	}
}

func (q *queue) pop() *v1.Pod {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.active) == 0 {
		return nil
	}
	first := slices.MinFunc(q.active, func(a, b *v1.Pod) int {
		if d := corev1helpers.PodPriority(b) - corev1helpers.PodPriority(a); d != 0 {
			return int(d)
		}
		return a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time)
	})
	q.active = slices.DeleteFunc(q.active, func(pod *v1.Pod) bool { return pod == first })
	return first
}

// run tries pods until a moment.
func (q *queue) run(end time.Time) {
	for time.Now().Before(end) {
		pod := q.pop()
		if pod == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		q.tried = append(q.tried, pod.Namespace)
		q.waited[pod.Namespace] = append(q.waited[pod.Namespace], time.Since(pod.CreationTimestamp.Time))
		q.Begin(pod)
		time.Sleep(q.takes[pod.Namespace])
		if q.rejects[pod.Namespace] {
			q.Rejected(pod)
			time.Sleep(q.writing)
		} else {
			q.Placed(pod)
		}
		synctest.Wait()
	}
}

// stream creates a pod of a namespace from time to time.
func (q *queue) stream(namespace string, every time.Duration, count int) {
	for i := range count {
		q.create(namespace, i, 1)
		time.Sleep(every)
	}
}

func (q *queue) count(namespace string) (n int) { return len(q.waited[namespace]) }

// TestOthersDoNotWaitForAllOfANamespace: however many pods it has, a pod of another one waits for a few attempts. The
// scheduler has something to do all the time, so that nobody is slowed.
func TestOthersDoNotWaitForAllOfANamespace(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{"by attempts": 40 * time.Millisecond, "by what is written": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(map[string]time.Duration{"costly": takes, "ordinary": time.Millisecond}, "costly")
				q.writing = 50*time.Millisecond - takes
				q.create("costly", 0, 300)
				go q.stream("ordinary", 250*time.Millisecond, 60)
				q.run(time.Now().Add(16 * time.Second))
				require.Equal(t, 60, q.count("ordinary"))
				require.LessOrEqual(t, slices.Max(q.waited["ordinary"][1:]), 3*50*time.Millisecond, "a few attempts")
				require.LessOrEqual(t, q.waited["ordinary"][0], (queuedUnknown+2)*50*time.Millisecond)
				require.Equal(t, 300, q.count("costly"), "all are tried in the time that this takes")
				require.Empty(t, q.turns)
				synctest.Wait()
			})
		})
	}
}

// TestOrdinaryPodsDoNotWait: a burst is tried in its order, and as fast as without turns.
func TestOrdinaryPodsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(map[string]time.Duration{"burst": 2 * time.Millisecond, "warm": 2 * time.Millisecond})
		q.create("warm", 0, 1)
		q.run(time.Now().Add(10 * time.Millisecond))
		q.create("warm", 1, 200)
		q.create("burst", 0, 1000)
		q.run(time.Now().Add(2*1200*time.Millisecond + 20*time.Millisecond))
		require.Equal(t, 201, q.count("warm"))
		require.Equal(t, 1000, q.count("burst"))
		require.LessOrEqual(t, q.woken, 1000-queuedUnknown, "each at most once")
		time.Sleep(time.Minute)
		require.False(t, q.watching)
	})
}

// TestNamespacesShareTheAttempts: two costly ones have as many attempts each, although one has ten times the pods, and an
// ordinary one that never ends leaves them some.
func TestNamespacesShareTheAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		costly := 30 * time.Millisecond
		q := newQueue(map[string]time.Duration{"many": costly, "few": costly, "endless": time.Millisecond}, "many", "few")
		q.create("many", 0, 2000)
		q.create("few", 0, 200)
		go q.stream("endless", 2*time.Millisecond, 5000)
		q.run(time.Now().Add(11 * time.Second))
		require.InDelta(t, q.count("many"), q.count("few"), 10)
		require.Greater(t, q.count("few"), 80, "%d %d %d", q.count("many"), q.count("few"), q.count("endless"))
		require.Greater(t, q.count("endless"), 200)
	})
}

// TestNamespacesShareTheTime: where all attempts take longer than usual, as on a busy machine, one namespace has many in the time of a
// single one of another.
func TestNamespacesShareTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(map[string]time.Duration{"costly": 400 * time.Millisecond, "slow": 20 * time.Millisecond}, "costly")
		q.create("costly", 0, 1000)
		q.create("slow", 0, 1000)
		q.run(time.Now().Add(20 * time.Second))
		require.Greater(t, q.count("slow"), 8*q.count("costly"))
		require.Less(t, q.count("slow"), 30*q.count("costly"))
	})
}

// TestPriorityDecidesWithinANamespace: and pods of higher priority do not wait for turns of others.
func TestPriorityDecidesWithinANamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(map[string]time.Duration{"costly": 50 * time.Millisecond, "other": time.Millisecond}, "costly")
		q.create("costly", 0, 100)
		q.run(time.Now().Add(time.Second))
		before := len(q.tried)
		q.create("other", 0, 100)
		important := newPodIn("costly", 1000, 10)
		q.add(important)
		q.run(time.Now().Add(time.Millisecond))
		require.Equal(t, []string{"costly"}, q.tried[before:])
		require.NotContains(t, q.turns, important.UID, "it was tried at once")
	})
}

// TestNobodyWaitsForWhatIsLost: a pod that was queued, and that another plugin keeps out, or that is gone.
func TestNobodyWaitsForWhatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(map[string]time.Duration{"costly": 50 * time.Millisecond}, "costly")
		q.create("costly", 0, 10)
		q.run(time.Now().Add(2 * time.Second))
		require.Equal(t, 10, q.count("costly"))

		kept, waits, deleted := newPodIn("costly", 10, 0), newPodIn("costly", 11, 0), newPodIn("costly", 12, 0)
		require.NoError(t, q.Queue(kept))
		require.Error(t, q.Queue(deleted))
		require.Error(t, q.Queue(waits))
		q.Forget(deleted.UID)
		require.NotContains(t, q.turns, deleted.UID)
		require.ErrorIs(t, q.Waits(waits), errTurn)
		waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
		require.NoError(t, q.Waits(waits), "it was told another reason")
		q.run(time.Now().Add(lost + 2*time.Second))
		require.Equal(t, 11, q.count("costly"))
		time.Sleep(lost + gone)
		synctest.Wait()
		require.Empty(t, q.turns)
		require.Zero(t, q.queued.Len())
		require.False(t, q.watching)
	})
}

// TestSlowAttemptsKeepTheOrder: also if a few attempts take so long that a pod which is queued might be taken for lost.
func TestSlowAttemptsKeepTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(map[string]time.Duration{"costly": 3 * time.Second, "ordinary": time.Millisecond}, "costly")
		q.create("costly", 0, 100)
		q.run(time.Now().Add(20 * time.Second))
		q.create("ordinary", 0, 2)
		q.run(time.Now().Add(20 * time.Second))
		require.Equal(t, 2, q.count("ordinary"))
		require.LessOrEqual(t, slices.Max(q.waited["ordinary"]), 10*time.Second)
	})
}

// TestNamespacesAreForgotten: what is remembered does not grow with the number of namespaces that there ever were.
func TestNamespacesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(nil)
		for i := range 3 * manyNamespaces {
			q.create(fmt.Sprintf("n%d", i), 0, 1)
			q.run(time.Now().Add(time.Nanosecond))
		}
		require.LessOrEqual(t, len(q.namespaces), manyNamespaces)
		require.Len(t, slices.Collect(maps.Keys(q.waited)), 3*manyNamespaces)
	})
}
