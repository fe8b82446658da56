package coordinator

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNobodyTriesPods: while the scheduling queue is not worked off (a standby, a long backlog), a gang is woken only now
// and then.
func TestNobodyTriesPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		for range 60 {
			time.Sleep(30 * time.Second)
			w.queue.mutex.Lock()
			woken := w.queue.activated["gang-0"]
			clear(w.queue.activated)
			w.queue.mutex.Unlock()
			require.Less(t, woken, 10)
			require.NotZero(t, woken)
		}
		w.delete("gang-0")
		w.delete("gang-1")
	})
}

// TestShareOfPlanning: however many gangs wait that do not fit, and whatever happens, planning them takes a tenth of the
// time. Gangs of another namespace wait for only one of them.
func TestShareOfPlanning(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		const took, gangs = 100 * time.Millisecond, 100
		var mutex sync.Mutex
		var spent time.Duration
		w.planning = func() {
			time.Sleep(took)
			mutex.Lock()
			defer mutex.Unlock()
			spent += took
		}
		for i := range gangs {
			name := fmt.Sprintf("big%d", i)
			w.group(name, 4)
			w.pods(name, 0, 4)
		}
		time.Sleep(2 * time.Minute)
		mutex.Lock()
		spent = 0
		mutex.Unlock()
		const seconds = 600
		for range seconds * 10 {
			w.StirAll()
			time.Sleep(100 * time.Millisecond)
		}
		mutex.Lock()
		share := spent.Seconds() / seconds
		mutex.Unlock()
		w.Logf("%.3f of the time", share)
		require.LessOrEqual(w, share, 0.11)
		require.GreaterOrEqual(w, share, 0.07, "they have to be planned")
		w.has(gangs * 4)
		w.StirAll()
		time.Sleep(10 * time.Minute)
		for i := range gangs {
			require.Equal(w, 4, w.bound(fmt.Sprintf("big%d", i)))
		}
	})
}

// TestTurnsByNamespace: a namespace with many gangs gets one turn, and a gang of another namespace gets the next one.
func TestTurnsByNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	now := time.Now()
	for i := range 50 {
		w.gangs[fmt.Sprintf("many/%d", i)] = &waiting{took: time.Second, queued: true, at: now.Add(-time.Duration(i) * time.Second)}
	}
	w.gangs["one/a"] = &waiting{took: time.Second, queued: true, at: now.Add(-time.Second)}
	gang, _ := w.next()
	require.Equal(t, "one/a", gang)
	delete(w.gangs, "one/a")
	gang, _ = w.next()
	require.Equal(t, "many/49", gang, "the one that waits longest")
	clear(w.gangs)
	_, next := w.next()
	require.Nil(t, next)
}

// TestTookMore: plans that preemption makes for a gang count as the gang's own.
func TestTookMore(t *testing.T) {
	t.Parallel()
	w, pod := newWorld(t, 0), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Labels: map[string]string{v1alpha1.PodGroupLabel: "a"}}}
	before := time.Now()
	w.TookMore(pod, time.Minute)
	require.True(t, w.rested.IsZero(), "it was not planned in vain")
	w.gangs["one/a"] = &waiting{took: time.Second}
	w.TookMore(pod, time.Minute)
	require.Equal(t, time.Minute+time.Second, w.gangs["one/a"].took)
	require.GreaterOrEqual(t, w.rested.Sub(before), partForGangs*time.Minute)
	delete(w.gangs, "one/a")
}

// TestHintsOfOthers: a gang is planned again after an event that another plugin's hint considers helpful for one of its
// pods. The queue leaves the pods where they are.
func TestHintsOfOthers(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		other := &extension{hint: func(pod *v1.Pod) (fwk.QueueingHint, error) {
			switch pod.Name {
			case "gang-1":
				return fwk.Queue, nil
			case "gang-2":
				return fwk.QueueSkip, errHere
			}
			return fwk.QueueSkip, nil
		}}
		nobody := &extension{hint: func(*v1.Pod) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil }}
		without := &extension{event: fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add}}
		events, err := w.Hints(w.Context(), "one", []fwk.EnqueueExtensions{nobody, other, nobody, without})
		require.NoError(w, err)
		require.Len(w, events, 2, "each event once")
		w.group("gang", 3)
		w.pods("gang", 0, 3)
		time.Sleep(5 * time.Second)
		asked := func(event int, pod *v1.Pod) (again bool) {
			before := w.planned()
			hint, err := events[event].QueueingHintFn(klog.Background(), pod, nil, nil)
			require.NoError(w, err)
			require.Equal(w, fwk.QueueSkip, hint)
			time.Sleep(5 * time.Second)
			return w.planned() > before
		}
		require.False(w, asked(0, builder.Pod("single")))
		require.False(w, asked(0, w.pod("gang-0")))
		require.True(w, asked(0, w.pod("gang-1")))
		require.True(w, asked(0, w.pod("gang-2")), "a hint that fails")
		require.True(w, asked(1, w.pod("gang-0")), "an event without a hint")
		_, err = w.Hints(w.Context(), "one", []fwk.EnqueueExtensions{&extension{err: errHere}})
		require.ErrorIs(w, err, errHere)
	})
}

// TestHintsAboutPods: of the events about other pods that another plugin has registered, only deletions are registered with the queue.
// About the others, hints are asked for the pods of gangs that wait.
func TestHintsAboutPods(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var asked []string
		affinity := &extension{event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.UpdatePodLabel | fwk.Delete}, hint: func(pod *v1.Pod) (fwk.QueueingHint, error) {
			asked = append(asked, pod.Name)
			if pod.Name == "gang-1" {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}}
		every := &extension{event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodScaleDown}, hint: affinity.hint}
		events, err := w.Hints(w.Context(), "one", []fwk.EnqueueExtensions{affinity, every})
		require.NoError(w, err)
		registered := make([]fwk.ClusterEvent, 0, len(events))
		for _, event := range events {
			registered = append(registered, event.Event)
		}
		require.Equal(w, []fwk.ClusterEvent{{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, {Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown}}, registered)

		other := builder.Pod("other")
		placed := other.DeepCopy()
		placed.Spec.NodeName = "node"
		labelled := placed.DeepCopy()
		labelled.Labels = map[string]string{"app": "db"}
		ended := placed.DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		happens := func(before, after *v1.Pod) (again bool) {
			asked = nil
			plans := w.planned()
			w.askAbout(informer.Event[v1.Pod]{Before: before, After: after})
			time.Sleep(5 * time.Second)
			return w.planned() > plans
		}
		require.False(w, happens(other, placed))
		require.Empty(w, asked, "no gang waits")
		w.group("gang", 3)
		w.pods("gang", 0, 3)
		time.Sleep(5 * time.Second)
		require.True(w, happens(other, placed))
		require.Contains(w, asked, "gang-1")
		require.True(w, happens(nil, placed), "it was on its node when the scheduler started")
		require.True(w, happens(placed, labelled))
		require.False(w, happens(nil, other))
		require.False(w, happens(placed, placed))
		require.False(w, happens(placed, ended), "the queue reports that")
		require.False(w, happens(ended, nil))
		require.Empty(w, asked)
	})
}

// TestNothingIsTrustedForEver: a gang is planned again even if no event is reported.
func TestNothingIsTrustedForEver(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		time.Sleep(time.Hour)
		before := w.planned()
		time.Sleep(time.Hour)
		require.LessOrEqual(w, w.planned()-before, 60)
		w.has(2)
		w.requireBoundLater("gang", 2, longestTrust+time.Second)
	})
}

// TestHeardWhilePlanned: events during the first plan of a gang count.
func TestHeardWhilePlanned(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		once := sync.OnceFunc(func() {
			events, err := w.Hints(w.Context(), "one", []fwk.EnqueueExtensions{&extension{}})
			require.NoError(w, err)
			_, err = events[0].QueueingHintFn(klog.Background(), w.pod("gang-1"), nil, nil)
			require.NoError(w, err)
		})
		w.planning = once
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		time.Sleep(100 * time.Millisecond)
		w.has(2)
		w.requireBoundLater("gang", 2, 5*time.Second)
	})
}

// TestHopeless: if nothing is kept for a gang any more, its other pods are tried that are still nominated.
func TestHopeless(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.group("gang", 3)
		w.pods("gang", 0, 3)
		time.Sleep(5 * time.Second)
		w.update("gang-1", func(pod *v1.Pod) { pod.Status.NominatedNodeName = "node" })
		time.Sleep(5 * time.Second)
		before := []int{w.attempts("gang-0"), w.attempts("gang-1"), w.attempts("gang-2")}
		w.SetVerdict(w.pod("gang-0"), Verdict{Said: "waiting"})
		time.Sleep(time.Second)
		require.Equal(w, before, []int{w.attempts("gang-0"), w.attempts("gang-1"), w.attempts("gang-2")})
		w.SetVerdict(w.pod("gang-0"), Verdict{Said: "no", Hopeless: true})
		time.Sleep(time.Second)
		require.Equal(w, []int{before[0], before[1] + 1, before[2]}, []int{w.attempts("gang-0"), w.attempts("gang-1"), w.attempts("gang-2")})
	})
}
