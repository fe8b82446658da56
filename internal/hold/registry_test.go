package hold

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// waitingPod returns a pod that is known not to fit since some time.
func waitingPod(name string, since time.Time) *v1.Pod {
	pod := newJob(name, 1, 0, 0).Pod
	pod.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.Time{Time: since},
	}}
	return pod
}

func bound(pod *v1.Pod, node string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

func poolOn(node string) inventory.PoolID { return inventory.PoolID{Driver: testDriver, Name: node} }

// holdOn returns a hold for pods with a device each on a node, from number first on.
func holdOn(one *Waiting, node string, devices ...string) *Hold {
	h := &Hold{Waiting: one, Uses: make(map[types.UID][]ledger.Use), Nodes: make(map[types.UID]string)}
	for i, pod := range one.Pods {
		h.Uses[pod.UID], h.Nodes[pod.UID] = []ledger.Use{useOf(pod.UID, node, devices[i:i+1])}, node
	}
	return h
}

// TestHoldsEnd: what is held for a pod is free for others when the pod is bound, ends or is gone, and when the hold moves.
func TestHoldsEnd(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4, 4)
	one := c.waiting("w", 0, epoch, 2, 1)
	first, second := waitingPod("w-0", epoch), waitingPod("w-1", epoch)
	r := NewRegistry()
	replace := func(h ...*Hold) ledger.Freed {
		freed, _ := r.Replace(h, epoch)
		return freed
	}
	require.Empty(t, replace(holdOn(one, "node-0", "a", "b")))
	require.Empty(t, r.Holds(), "the pods are not known to wait")
	require.Empty(t, r.PodChanged(nil, first))
	require.Empty(t, r.PodChanged(nil, second))
	require.Len(t, r.Waiting(epoch), 2)

	require.Empty(t, replace(holdOn(one, "node-0", "a", "b")))
	require.Equal(t, ledger.Freed{poolOn("node-0"): {"a"}}, replace(holdOn(one, "node-0", "b", "c")))
	require.Equal(t, ledger.Freed{poolOn("node-0"): {"b", "c"}}, replace(holdOn(one, "node-1", "b", "c")))

	read := r.Holds()[0]
	require.Equal(t, ledger.Freed{poolOn("node-1"): {"b"}}, r.PodChanged(first, bound(first, "node-1")))
	require.Len(t, read.All(), 2, "who reads a hold sees no change")
	require.Len(t, r.Holds()[0].All(), 1)
	require.Equal(t, ledger.Freed{poolOn("node-1"): {"c"}}, r.PodChanged(second, nil))
	require.Empty(t, r.Holds())
	require.Empty(t, r.Waiting(epoch))
}

// TestPassesOn: devices that pass to another holder, or that others may use before the hold begins, are freed: these may have waited for them.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	c, r := newTestCluster(4), NewRegistry()
	r.PodChanged(nil, waitingPod("v-0", epoch))
	r.PodChanged(nil, waitingPod("w-0", epoch))
	for i, step := range []struct {
		holder   string
		priority int32
		begin    time.Duration
		freed    bool
	}{
		{"v", 0, 0, false}, {"w", 0, 0, true}, {"w", 0, 0, false}, {"w", 0, time.Hour, true}, {"w", 0, time.Hour + opensBy, false},
		{"w", 0, time.Hour + 2*opensBy + 1, true}, {"w", 0, time.Hour, false}, {"w", 0, 0, false}, {"w", 1, 0, true},
	} {
		h := holdOn(c.waiting(step.holder, step.priority, epoch, 1, 1), "node-0", "a")
		if step.begin > 0 {
			h.Begin = epoch.Add(step.begin)
		}
		freed, _ := r.Replace([]*Hold{h}, epoch)
		require.Len(t, r.Holds(), 1)
		require.Equal(t, step.freed, len(freed) > 0, "step %d", i)
	}
	for minute := range 10 { // The devices are free, and so the hold begins with each plan.
		h := holdOn(c.waiting("w", 1, epoch, 1, 1), "node-0", "a")
		h.Begin = epoch.Add(time.Duration(minute) * 2 * opensBy)
		freed, _ := r.Replace([]*Hold{h}, h.Begin)
		require.Equal(t, minute == 0, len(freed) > 0)
	}
}

// TestNew: Replace tells which holds are new or have moved.
func TestNew(t *testing.T) {
	t.Parallel()
	c, r := newTestCluster(4, 4), NewRegistry()
	one := c.waiting("w", 0, epoch, 1, 1)
	r.PodChanged(nil, waitingPod("w-0", epoch))
	for _, step := range []struct {
		node  string
		after time.Duration
		news  int
	}{{"node-0", 0, 1}, {"node-0", tellAfter, 0}, {"node-1", tellAfter, 1}, {"node-0", 2*tellAfter - 1, 0}, {"node-1", 2 * tellAfter, 1},
		{"node-1", 20 * tellAfter, 0}} {
		_, news := r.Replace([]*Hold{holdOn(one, step.node, "a")}, epoch.Add(step.after))
		require.Len(t, news, step.news, "%s after %s", step.node, step.after)
	}
}

// TestNotTaken: a pod that does not take free devices for a while holds nothing for some time.
func TestNotTaken(t *testing.T) {
	t.Parallel()
	c, r := newTestCluster(4), NewRegistry()
	one := c.waiting("w", 0, epoch, 1, 1)
	r.PodChanged(nil, waitingPod("w-0", epoch))
	plan := func(ready bool, after time.Duration) int {
		h := holdOn(one, "node-0", "a")
		h.Ready = ready
		r.Replace([]*Hold{h}, epoch.Add(after))
		return len(r.Holds())
	}
	require.Equal(t, 1, plan(true, 0))
	require.Equal(t, 1, plan(false, readyFor-2), "taken by a pod of higher priority")
	require.Equal(t, 1, plan(true, readyFor-1))
	require.Equal(t, 1, plan(true, 2*readyFor-2))
	require.Len(t, r.Waiting(epoch.Add(2*readyFor-2)), 1)
	require.Equal(t, 0, plan(true, 2*readyFor-1))
	require.Empty(t, r.Waiting(epoch.Add(2*readyFor-1)))
	require.Empty(t, r.Waiting(epoch.Add(2*readyFor+idleFor-2)))
	require.Len(t, r.Waiting(epoch.Add(2*readyFor+idleFor-1)), 1)
}

// TestStays: a hold that stays in the next plan loses the pods that have ended meanwhile, and its time does not run out.
func TestStays(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	one := &Waiting{Name: "ns/group", Group: true}
	h := &Hold{Waiting: one, Ready: true, Nodes: map[types.UID]string{"a": "node-0", "b": "node-1"}, Uses: map[types.UID][]ledger.Use{
		"a": {useOf("a", "node-0", []string{"gpu-00"})}, "b": {useOf("b", "node-1", []string{"gpu-00"})},
	}}
	pods := make(map[string]*v1.Pod)
	for _, name := range []string{"a", "b"} {
		pods[name] = waitingPod(name, epoch)
		one.Pods = append(one.Pods, &Pod{UID: pods[name].UID})
		r.PodChanged(nil, pods[name])
	}
	r.Replace([]*Hold{h}, epoch)
	r.PodChanged(pods["a"], bound(pods["a"], "node-0"))
	freed, news := r.Replace([]*Hold{h}, epoch.Add(2*readyFor))
	require.Empty(t, freed)
	require.Empty(t, news)
	require.Len(t, r.Holds(), 1)
	require.Len(t, r.Holds()[0].Uses, 1)
	r.PodChanged(pods["b"], bound(pods["b"], "node-1"))
	r.Replace([]*Hold{h}, epoch)
	require.Empty(t, r.Holds())
}

// TestWaitingInOrder: the plan of each second gets the pods in the same order. One that begins with another pod of a group may be another plan,
// and the devices of the first one then count as freed, which has pods tried again for nothing.
func TestWaitingInOrder(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	var want []string
	for i := range 20 {
		pod := waitingPod(fmt.Sprintf("p-%02d", i), epoch)
		pod.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(i/2) * time.Second))
		r.PodChanged(nil, pod)
		want = append(want, pod.Name)
	}
	for range 3 {
		var got []string
		for _, pod := range r.Waiting(epoch) {
			got = append(got, pod.Name)
		}
		require.Equal(t, want, got)
	}
}
