package foreign

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// streams are the watches of pods and claims of a foreignWorld, which can be closed.
type streams struct {
	mutex  sync.Mutex
	closed map[string]bool
	open   map[string]*watch.RaceFreeFakeWatcher
	// waiting are the pods in the next list.
	waiting []v1.Pod
}

// follow has the world follow pods and claims as the plugin does, until the test ends.
func (w *foreignWorld) follow(t *testing.T) *streams {
	s := &streams{closed: map[string]bool{}, open: map[string]*watch.RaceFreeFakeWatcher{}}
	client := fake.NewClientset()
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		resource := action.GetResource().Resource
		if s.closed[resource] {
			return true, nil, syscall.ECONNREFUSED
		}
		s.open[resource] = watch.NewRaceFreeFake()
		return true, s.open[resource], nil
	})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return true, (&v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: s.waiting}).DeepCopy(), nil
	})
	w.Order = allocationlog.New(client, func(inventory.PoolID) *inventory.NodePool { return nil }, clock.RealClock{})
	var running sync.WaitGroup
	running.Go(func() { w.Order.Run(t.Context()) })
	running.Go(func() { w.Competitors.Follow(t.Context(), client) })
	t.Cleanup(running.Wait)
	synctest.Wait()
	return s
}

// close closes the watch of a resource for a while, as a server does that cannot serve it.
func (s *streams) close(resource string, lasts time.Duration) {
	s.mutex.Lock()
	s.closed[resource] = true
	s.open[resource].Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
	s.mutex.Unlock()
	time.AfterFunc(lasts, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.closed[resource] = false
	})
}

// list has the next list consist of these pods.
func (s *streams) list(pods ...v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.waiting = pods
}

// TestClosedWatches: the time for which a watch is closed does not count as silence, and who waited meanwhile has waited
// since before.
func TestClosedWatches(t *testing.T) {
	t.Parallel()
	const longest = MaxSettleTimes * settleTime
	// slow is how long it can take until a watch is opened again that could be: the last pauses of the back-off.
	const slow = 3300 * time.Millisecond
	missed := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "missed", UID: "pod-missed", ResourceVersion: "90"},
		Spec:       v1.PodSpec{SchedulerName: "other"}, Status: v1.PodStatus{NominatedNodeName: "n"},
	}
	for name, test := range map[string]struct {
		resource      string
		before, after time.Duration // for which the watch is closed
		missed        bool
		least, most   time.Duration
		fails         bool
	}{
		"open":                           {least: settleTime, most: settleTime},
		"the watch of pods, for long":    {resource: "pods", after: 3 * settleTime, least: 4 * settleTime, most: 4*settleTime + slow},
		"the watch of claims, for long":  {resource: "resourceclaims", after: 3 * settleTime, least: 4 * settleTime, most: 4*settleTime + slow},
		"at first":                       {resource: "pods", before: settleTime, after: settleTime / 2, least: 3 * settleTime / 2, most: 3*settleTime/2 + slow},
		"for ever":                       {resource: "pods", after: time.Hour, least: longest, most: longest, fails: true},
		"a nominated pod was missed":     {resource: "pods", after: 3 * settleTime, missed: true, least: longest, most: longest},
		"one was missed before the wait": {resource: "pods", before: settleTime, after: settleTime / 2, missed: true, least: longest, most: longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newForeignWorld(t)
				s := w.follow(t)
				w.contend("theirs", "gpu", reject)
				w.claim("missed", "gpu") // Nobody knows its pod.
				if test.missed {
					s.list(missed)
				}
				if test.resource != "" {
					s.close(test.resource, test.before+test.after)
				}
				time.Sleep(test.before)
				waited, err := w.begin(0, allocation()).AfterWrite(t.Context(), func() {})
				require.Equal(t, test.fails, err != nil, "%v", err)
				require.GreaterOrEqual(t, waited, test.least)
				require.LessOrEqual(t, waited, test.most+2*settleTime/SettleSteps)
			})
		})
	}
}

// TestBlind: while a watch is closed, claims settle although no competitor is known, if another scheduler was ever seen.
func TestBlind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ seen, takesPart, want bool }{
		"nobody was seen":           {},
		"another was seen":          {seen: true, want: true},
		"one that takes part":       {seen: true, takesPart: true},
		"one that was not seen yet": {takesPart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newForeignWorld(t)
				s := w.follow(t)
				if test.seen {
					w.contend("theirs", "gpu", reject)
					w.Competitors.Delete("pod-theirs")
				}
				if test.takesPart {
					w.Competitors.Learn("other", true)
				}
				require.False(t, w.begin(0, allocation()).Contested())
				s.close("pods", settleTime)
				synctest.Wait()
				require.Equal(t, test.want, w.begin(0, allocation()).Contested())
				time.Sleep(2*settleTime + 3*time.Second)
				require.False(t, w.begin(0, allocation()).Contested(), "it was opened again")
			})
		})
	}
}

// TestTwoWatches: the informer and the watch of waiting pods tell of the same pods, and either can be late.
func TestTwoWatches(t *testing.T) {
	t.Parallel()
	at := func(version string, edits ...func(*v1.Pod)) *v1.Pod {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p", ResourceVersion: version}, Spec: v1.PodSpec{SchedulerName: "other"}}
		for _, edit := range edits {
			edit(pod)
		}
		return pod
	}
	bind := func(pod *v1.Pod) { pod.Spec.NodeName = "n" }
	const waits, decided, bound, gone = "waits", "decided", "bound", "gone"
	for name, test := range map[string]struct {
		events func(r *Registry, f feed) error
		want   string
		heard  bool
	}{
		"new":                   {func(_ *Registry, f feed) error { return f.Add(at("5")) }, waits, false},
		"nominated":             {func(_ *Registry, f feed) error { return errors.Join(f.Add(at("5")), f.Update(at("6", nominate))) }, decided, true},
		"the informer is late":  {func(r *Registry, f feed) error { err := f.Update(at("6", nominate)); r.Add(at("5"), false); return err }, decided, false},
		"the informer is ahead": {func(r *Registry, f feed) error { r.Update(at("5"), at("7", bind)); return f.Update(at("6")) }, bound, false},
		"not waiting any more":  {func(_ *Registry, f feed) error { return errors.Join(f.Add(at("5")), f.Delete(at("7"))) }, bound, false},
		"the informer comes after": {func(r *Registry, f feed) error {
			err := errors.Join(f.Add(at("5")), f.Delete(at("7")))
			r.Update(at("5"), at("6"))
			return err
		}, bound, false},
		"and shows that it is bound": {func(r *Registry, f feed) error {
			err := errors.Join(f.Add(at("5")), f.Delete(at("7")))
			r.Update(at("6"), at("7", bind))
			return err
		}, bound, true},
		"and shows that it is deleted": {func(r *Registry, f feed) error {
			err := errors.Join(f.Add(at("5")), f.Delete(at("7")))
			r.Delete("p")
			return err
		}, gone, false},
		"the informer has shown that it is deleted": {func(r *Registry, f feed) error {
			r.Add(at("5"), false)
			r.Delete("p")
			return errors.Join(f.Add(at("5")), f.Update(at("6", nominate)), f.Delete(at("7")))
		}, gone, false},
		"the informer has shown that it has ended": {func(r *Registry, f feed) error {
			r.Update(at("5"), at("8", func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }))
			return errors.Join(f.Add(at("5")), f.Replace([]any{at("6", nominate)}, "6"), f.Delete(at("8")))
		}, gone, false},
		"not in the list": {func(_ *Registry, f feed) error { return errors.Join(f.Add(at("5")), f.Replace(nil, "9")) }, bound, false},
		"not in the list, and then the binding": {func(r *Registry, f feed) error {
			r.Add(at("5"), false)
			err := errors.Join(f.Add(at("5")), f.Replace(nil, "9"))
			r.Update(at("5"), at("7", bind))
			return err
		}, bound, true},
		"newer than the list": {func(_ *Registry, f feed) error { return errors.Join(f.Add(at("5")), f.Replace(nil, "4")) }, waits, false},
		"in the list": {func(_ *Registry, f feed) error {
			return errors.Join(f.Add(at("5")), f.Replace([]any{at("6", nominate)}, "9"))
		}, decided, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(clock.RealClock{}, needs(func(*v1.Pod) bool { return true }))
			require.NoError(t, test.events(r, feed{r}))
			got := gone
			if list, _ := r.List("ns", 0, 0); len(list) > 0 {
				switch {
				case list[0].Bound:
					got = bound
				case list[0].Decided:
					got = decided
				default:
					got = waits
				}
			}
			require.Equal(t, test.want, got)
			require.Equal(t, test.heard, !r.Heard("ns").IsZero())
		})
	}
	require.Error(t, feed{}.Update(&v1.Node{}))
	require.Error(t, feed{}.Delete(&v1.Node{}))
	require.Error(t, feed{}.Replace([]any{&v1.Node{}}, "1"))
}

// TestSelector: pods of this scheduler's profiles, pods on nodes and those that have ended are not followed.
func TestSelector(t *testing.T) {
	t.Parallel()
	r := New(clock.RealClock{}, needs(func(*v1.Pod) bool { return true }))
	r.Own("b")
	r.Own("a")
	require.Equal(t, "spec.nodeName=,status.phase=Pending,spec.schedulerName!=a,spec.schedulerName!=b", r.selector())
}
