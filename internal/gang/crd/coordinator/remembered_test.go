package coordinator

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestBoundAndNotSeen: pods that are bound count, although the informer does not show that yet.
func TestBoundAndNotSeen(t *testing.T) {
	inWorld(t, 8, func(w *world) {
		w.lag = 20 * time.Second
		w.group("gang", 4)
		w.pods("gang", 0, 4)
		time.Sleep(time.Second)
		require.Zero(w, w.bound("gang"))
		members := w.MembersOf(w.pod("gang-0"))
		require.Len(w, members.Assigned, 4)
		require.Equal(w, "node", members.Assigned[0].Spec.NodeName)
		require.Empty(w, members.Waiting)
		plans := w.planned()
		w.pods("gang", 4, 1)
		time.Sleep(time.Second)
		require.Equal(w, plans, w.planned(), "the fifth goes for itself")
		require.Equal(w, 1, w.attempts("gang-4"))
		require.Len(w, w.MembersOf(w.pod("gang-0")).Assigned, 5)
		time.Sleep(30 * time.Second)
		require.Equal(w, 5, w.bound("gang"))
	})
}

// TestUndoing: a gang is not planned while an attempt to schedule one of its pods is being undone.
func TestUndoing(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		var undone atomic.Bool
		w.atPreBind = func(pod *v1.Pod) error {
			switch {
			case !undone.Load() && pod.Name == "gang-0":
				time.Sleep(30 * time.Second)
				undone.Store(true)
			case !undone.Load() && pod.Name == "gang-1":
				return errHere
			}
			return nil
		}
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		time.Sleep(25 * time.Second)
		require.Equal(w, 1, w.planned())
		members := w.MembersOf(w.pod("gang-1"))
		require.Len(w, members.Held, 1)
		require.Contains(w, members.HeldBy, "pod gang-0 that came to nothing is being undone")
		require.LessOrEqual(w, w.attempts("gang-1"), 10)
		w.requireBoundLater("gang", 2, 10*time.Second)
	})
}

// TestNotInTheQueue: if the pod that is woken for the whole gang is in no queue, all other pods are woken.
func TestNotInTheQueue(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.group("gang", 4)
		w.pods("gang", 0, 5)
		time.Sleep(30 * time.Second)
		for _, pod := range w.podsOf("ns/gang")[:4] {
			w.queue.remove(pod)
		}
		w.has(5)
		w.StirAll()
		time.Sleep(5 * time.Second)
		_, carried := w.progress.Carried("ns/gang")
		require.True(w, carried)
		for _, pod := range w.podsOf("ns/gang") {
			w.queue.add(pod)
		}
		w.requireBoundLater("gang", 5, 20*time.Second)
	})
}

// TestTriesEnd: a pod whose attempts always fail early gives up its assignment long before the plan is due.
func TestTriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		for range mostTries {
			assignment, err := w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
			require.NoError(t, err)
			require.NotNil(t, assignment)
		}
		_, err := w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
		require.ErrorContains(t, err, "pod gang-0 could not be reserved in 3 attempts")
		require.Nil(t, w.Assignment("gang-1"))
		_, err = w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-1"), nil, w.plan)
		require.ErrorContains(t, err, "planned again in a moment")
		w.delete("gang-0")
		w.delete("gang-1")
		time.Sleep(time.Hour)
		w.requireNothingLeft()
	})
}

// TestNominationsLast: a failed attempt ends a pod's nomination, but not for long.
func TestNominationsLast(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.pods("gang", 0, 1, func(pod *v1.Pod) { pod.Annotations = map[string]string{"after": "gang-1"} })
		w.pods("gang", 1, 1)
		w.atPreFilter = func(pod *v1.Pod) error {
			if pod.Name == "gang-1" && w.attempts("gang-1") < 5 {
				return errHere
			}
			return nil
		}
		w.group("gang", 2)
		time.Sleep(1500 * time.Millisecond)
		require.NotNil(w, w.Assignment("gang-0"))
		require.Contains(w, w.queue.nominations(), types.UID("gang-0"))
		w.requireBoundLater("gang", 2, 10*time.Second)
	})
}

// TestAboutToWait: a pod whose plan is given up between Permit and the moment when it waits does not wait for long.
func TestAboutToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		cs, pod := framework.NewCycleState(), w.pod("gang-0")
		_, err := w.Begin(t.Context(), cs, pod, nil, w.plan)
		require.NoError(t, err)
		require.True(t, HasPlanned(cs))
		status, timeout := w.Permit(cs, pod, pluginName)
		require.True(t, status.IsWait())
		w.delete("gang-1")
		waits := w.wait(pod, timeout)
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		require.False(t, <-waits.verdict)
		require.Equal(t, begun, time.Now(), "it was rejected before")
		require.ErrorContains(t, w.Committed(t.Context(), cs), "given up")
		w.Failed(cs)
		w.Failed(cs)
		w.delete("gang-0")
		time.Sleep(time.Hour)
		w.requireNothingLeft()
	})
}

// TestSomebodyElseHasIt: if a planned device is taken by now, nothing of the plan stays in flight.
func TestSomebodyElseHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		other := builder.Claim("other").Allocated("pool", "device-gang-1")
		require.NoError(t, w.Ledger.AddInFlight(ledger.RefTo(other), "other", other.Status.Allocation))
		_, err := w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
		require.ErrorContains(t, err, "keep the devices that are planned for pod gang-1")
		require.Equal(t, 1, w.Ledger.InFlightCount())
		require.Nil(t, w.Assignment("gang-0"))
		require.False(t, w.Misfit(w.pod("gang-0")))
		w.delete("gang-0")
		w.delete("gang-1")
		w.Ledger.RemoveInFlight("uid-other", "other")
		time.Sleep(time.Hour)
		w.requireNothingLeft()
	})
}

// TestMinResources: the group is planned once its minResources are free.
func TestMinResources(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wants v1.ResourceList
		fits  bool
	}{
		"cpu":               {builder.Resources("cpu", "7500m"), true},
		"too much cpu":      {builder.Resources("cpu", "8100m"), false},
		"memory":            {builder.Resources("memory", "4Gi"), true},
		"too much memory":   {builder.Resources("memory", "5Gi"), false},
		"pods":              {builder.Resources("pods", "20"), true},
		"too many pods":     {builder.Resources("pods", "21"), false},
		"storage":           {builder.Resources("ephemeral-storage", "2Gi"), true},
		"too much storage":  {builder.Resources("ephemeral-storage", "3Gi"), false},
		"extended":          {builder.Resources("example.com/gpu", "2"), true},
		"too much extended": {builder.Resources("example.com/gpu", "3"), false},
		"unknown":           {builder.Resources("example.com/other", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []fwk.NodeInfo
			for i := range 2 {
				node := framework.NewNodeInfo()
				node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Status: v1.NodeStatus{
					Allocatable: builder.Resources("cpu", "4", "memory", "2Gi", "pods", "10", "ephemeral-storage", "1Gi", "example.com/gpu", "1"),
				}})
				nodes = append(nodes, node)
			}
			err := (&Coordinator{}).Enough(&Group{Name: "ns/gang", MinResources: test.wants}, nodes)
			if test.fits {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "minResources")
			}
		})
	}
}

// TestHolders: the gangs that hold most are named, unless they are of other namespaces.
func TestHolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for group, pods := range map[string]int{"a": 1, "b": 3, "c": 2, "d": 4, "e": 1, "none": 1} {
		w.pods(group, 0, pods)
	}
	has := func(pod *v1.Pod) int {
		if pod.Name == "none-0" {
			return 0
		}
		return 2
	}
	require.Equal(t, "group ns/b holds 6; group ns/c holds 4; group ns/a holds 2; 1 more groups of this namespace hold some", w.Holders("ns/d", has))
	require.Empty(t, w.Holders("ns/d", func(*v1.Pod) int { return 0 }))
}

// TestFollow: events of other objects stir gangs that wait.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	_, err := New(cache.NewSharedIndexInformer(nil, &v1.Pod{}, 0, cache.Indexers{gangIndex: nil}), Cluster{})
	require.ErrorContains(t, err, "index pods by PodGroup")

	node := builder.Node("n")
	cordoned, heartbeat := node.DeepCopy(), node.DeepCopy()
	cordoned.Spec.Unschedulable = true
	heartbeat.ResourceVersion = "2"
	ofNode := func(before, after *v1.Node) func() {
		return func() { w.NodeChanged(informer.Event[v1.Node]{Before: before, After: after}) }
	}
	ofPod := func(before, after *v1.Pod) func() {
		return func() { w.PodChanged(informer.Event[v1.Pod]{Before: before, After: after}) }
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	placed, over := pod.DeepCopy(), pod.DeepCopy()
	placed.Spec.NodeName = "n"
	over.Status.Phase = v1.PodFailed
	for name, test := range map[string]struct {
		happens func()
		ordered bool
		stirs   bool
	}{
		"a node comes":              {happens: ofNode(nil, node), stirs: true},
		"a node changes":            {happens: ofNode(node, cordoned), stirs: true},
		"a node says that it lives": {happens: ofNode(node, heartbeat)},
		"a node goes":               {happens: ofNode(node, nil)},
		"a pod comes":               {happens: ofPod(nil, pod)},
		"a pod goes":                {happens: ofPod(pod, nil), stirs: true},
		"a pod is over":             {happens: ofPod(pod, over), stirs: true},
		"a pod gets a node":         {happens: ofPod(pod, placed)},
		"another pod gets a node":   {happens: ofPod(pod, placed), ordered: true, stirs: true},
		"devices become free":       {happens: func() { w.WakeForDevices(nil) }, stirs: true},
		"a claim is written":        {happens: func() { w.WakeForLanded(nil, time.Time{}, nil) }, stirs: true},
		"a claim is given up":       {happens: func() { w.WakeOthersOf(nil, time.Time{}, ledger.ClaimRef{}) }, stirs: true},
	} {
		waits := &waiting{reason: "no room", tried: true, at: time.Now(), pause: time.Hour, ordered: test.ordered}
		w.Coordinator.mutex.Lock()
		w.gangs["ns/gang"] = waits
		w.Coordinator.mutex.Unlock()
		test.happens()
		require.Equal(t, test.stirs, waits.stirred, name)
		require.Equal(t, test.stirs, waits.timer != nil, name)
		if waits.timer != nil {
			waits.timer.Stop()
		}
	}
}

// TestGroupChanged: only changes that matter for scheduling end a plan.
func TestGroupChanged(t *testing.T) {
	t.Parallel()
	before := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gang", UID: "1"}, Spec: v1alpha1.PodGroupSpec{MinMember: 2, MinResources: builder.Resources("cpu", "0")}}
	for name, test := range map[string]struct {
		change        func(group *v1alpha1.PodGroup)
		ends, ignored bool
	}{
		"minMember": {change: func(group *v1alpha1.PodGroup) { group.Spec.MinMember = 3 }, ends: true},
		"required domain": {change: func(group *v1alpha1.PodGroup) {
			group.Annotations = map[string]string{"quartermaster-dra.github.io/required-domain": "label=rack"}
		}, ends: true},
		"preferred domain": {change: func(group *v1alpha1.PodGroup) {
			group.Annotations = map[string]string{"quartermaster-dra.github.io/preferred-domain": "label=rack"}
		}, ends: true},
		"another one":        {change: func(group *v1alpha1.PodGroup) { group.UID = "2" }, ends: true},
		"the same quantity":  {change: func(group *v1alpha1.PodGroup) { group.Spec.MinResources = builder.Resources("cpu", "0m") }, ignored: true},
		"another annotation": {change: func(group *v1alpha1.PodGroup) { group.Annotations = map[string]string{"a": "b"} }, ignored: true},
		"phase":              {change: func(group *v1alpha1.PodGroup) { group.Status.Phase = "Scheduling"; group.Generation++ }, ignored: true},
		"succeeded":          {change: func(group *v1alpha1.PodGroup) { group.Status.Succeeded = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				w.groups["gang"] = before
				w.pods("gang", 0, 2)
				_, err := w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
				require.NoError(t, err)
				synctest.Wait()
				w.Coordinator.mutex.Lock()
				w.gangs = make(map[string]*waiting)
				w.Coordinator.mutex.Unlock()
				after := before.DeepCopy()
				test.change(after)
				w.GroupChanged(before, after)
				require.Equal(t, test.ends, w.Assignment("gang-0") == nil)
				w.Coordinator.mutex.Lock()
				defer w.Coordinator.mutex.Unlock()
				require.Equal(t, test.ignored, w.gangs["ns/gang"] == nil)
			})
		})
	}
}

// TestStates: states without gangs have no assignments, and copies have the same.
func TestStates(t *testing.T) {
	t.Parallel()
	cs := framework.NewCycleState()
	require.Nil(t, AssignmentIn(cs))
	require.False(t, filters.IsApart(cs))
	require.False(t, HasPlanned(cs))
	filters.SetApart(cs)
	cs.Write(plannedKey, hasPlanned{})
	cs.Write(assignmentKey, assignmentState{})
	cs.Write(underwayKey, &underway{passed: true})
	again := cs.Clone()
	require.True(t, filters.IsApart(again))
	require.True(t, HasPlanned(again))
	require.True(t, underwayIn(again).passed)
	again.Write(assignmentKey, hasPlanned{})
	require.Nil(t, AssignmentIn(again))
}

// TestNotReady: pods that cannot be tried are not planned, and neither is an invalid group.
func TestNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.ready = func(pod *v1.Pod) error {
		if pod.Name != "gang-0" {
			return errors.New("claim " + pod.Name + " is missing")
		}
		return nil
	}
	w.groups["gang"] = &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: 2}}
	w.pods("gang", 0, 3)
	_, err := w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
	require.ErrorContains(t, err, "2 of its pods cannot be scheduled with this one yet and at least 2 are needed (minMember): pod gang-1: claim gang-1 is missing")
	w.groups["gang"] = &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "gang", Annotations: map[string]string{"quartermaster-dra.github.io/required-domain": "rack"},
	}}
	_, err = w.Begin(t.Context(), framework.NewCycleState(), w.pod("gang-0"), nil, w.plan)
	require.ErrorContains(t, err, "group ns/gang: ")
	assignment, err := w.Begin(t.Context(), framework.NewCycleState(), builder.Pod("single"), nil, w.plan)
	require.NoError(t, err)
	require.Nil(t, assignment)
}
