package foreign

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world passes events to a Registry as the informer does.
type world struct {
	*Registry
	clock *testingclock.FakePassiveClock
	// latest holds the latest state of the pods, by UID.
	latest map[types.UID]*v1.Pod
}

func (w *world) Add(pod *v1.Pod, initial bool) {
	w.Registry.Add(pod, initial)
	w.latest[pod.UID] = pod
}

func (w *world) Update(pod *v1.Pod) {
	w.Registry.Update(w.latest[pod.UID], pod)
	w.latest[pod.UID] = pod
}

// needs says which pods may have devices.
type needs func(*v1.Pod) bool

func (n needs) MayHaveDevices(pod *v1.Pod) bool { return n(pod) }

func newWorld() *world {
	clock := testingclock.NewFakePassiveClock(start)
	w := &world{clock: clock, latest: make(map[types.UID]*v1.Pod), Registry: New(clock, needs(func(pod *v1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }))}
	w.Own("ours")
	return w
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// names lists the competitors with the fields that are set.
func (w *world) names() []string {
	competitors, _ := w.all(0)
	return describe(competitors)
}

// all lists the competitors of all namespaces.
func (w *world) all(since uint64) (list []Competitor, version uint64) {
	names, version := w.Namespaces(since)
	for _, name := range names {
		in, _ := w.List(name, since, 0)
		list = append(list, in...)
	}
	return list, version
}

// describe names competitors with the fields that are set.
func describe(competitors []Competitor) []string {
	names := []string{}
	for _, c := range competitors {
		if c.TakesPart {
			continue
		}
		name := c.Pod.Name
		if c.SchedulerSeen {
			name += " seen"
		}
		if c.Bound {
			name += " bound"
		}
		if c.Rejected {
			name += " rejected"
		}
		if c.Decided {
			name += " decided"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

type edit = func(*v1.Pod)

func pod(name string, edits ...edit) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{
		SchedulerName: "other", ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}},
	}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu"}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func of(scheduler string) edit { return func(pod *v1.Pod) { pod.Spec.SchedulerName = scheduler } }
func bound(pod *v1.Pod)        { pod.Spec.NodeName = "n1" }
func nominated(pod *v1.Pod)    { pod.Status.NominatedNodeName = "n1" }
func ended(pod *v1.Pod)        { pod.Status.Phase = v1.PodSucceeded }
func leaving(pod *v1.Pod)      { pod.DeletionTimestamp = &metav1.Time{Time: start} }
func gated(pod *v1.Pod)        { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}} }
func plain(pod *v1.Pod)        { pod.Spec.ResourceClaims = nil }
func rejectedPod(pod *v1.Pod) {
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
}

// onceGated has the condition that the API server gave the pod when it was created with gates.
func onceGated(pod *v1.Pod) {
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonSchedulingGated}}
}

func TestWhoCounts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod       *v1.Pod
		initial   bool
		now, then []string // then is after a minute
	}{
		"new":                            {pod: pod("p"), now: []string{"p"}},
		"nominated":                      {pod: pod("p", nominated), now: []string{"p seen decided"}, then: []string{"p seen decided"}},
		"rejected":                       {pod: pod("p", rejectedPod), now: []string{"p seen rejected"}, then: []string{"p seen rejected"}},
		"nominated after a rejection":    {pod: pod("p", rejectedPod, nominated), now: []string{"p seen"}, then: []string{"p seen"}},
		"bound before it was heard of":   {pod: pod("p", bound), now: []string{"p bound"}},
		"bound at the start":             {pod: pod("p", bound), initial: true},
		"waiting at the start":           {pod: pod("p"), initial: true, now: []string{"p"}},
		"without the gates that it had":  {pod: pod("p", onceGated), now: []string{"p"}},
		"nominated, and gated before":    {pod: pod("p", onceGated, nominated), now: []string{"p seen decided"}, then: []string{"p seen decided"}},
		"over":                           {pod: pod("p", ended)},
		"going":                          {pod: pod("p", leaving)},
		"with a gate":                    {pod: pod("p", gated)},
		"without devices":                {pod: pod("p", plain)},
		"ours":                           {pod: pod("p", of("ours"))},
		"of nobody, as no server has it": {pod: pod("p", of(""))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.Add(tc.pod, tc.initial)
			require.ElementsMatch(t, tc.now, w.names())
			w.pass(Memory + time.Second)
			require.ElementsMatch(t, tc.then, w.names())
		})
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("p", gated), false)
	w.Add(pod("q"), false)
	w.Add(pod("r"), false)
	w.Update(pod("p"))
	require.Equal(t, []string{"p", "q", "r"}, w.names())
	w.Update(pod("p", bound))
	require.Equal(t, []string{"p seen bound", "q seen", "r seen"}, w.names())
	w.Delete("q")
	w.pass(Memory)
	w.Update(pod("p", bound))
	require.Equal(t, []string{"p seen bound", "r seen"}, w.names())
	w.pass(time.Second)
	require.Equal(t, []string{"r seen"}, w.names(), "its scheduler is known to run")
	w.Own("other")
	require.Empty(t, w.names(), "a profile was added")
}

// TestHeard: changes of pods by users show nothing about schedulers.
func TestHeard(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("p"), false)
	labelled := pod("p")
	labelled.Labels = map[string]string{"a": "b"}
	w.pass(time.Second)
	w.Update(labelled)
	require.Zero(t, w.Heard("ns"))
	for _, change := range []edit{rejectedPod, nominated, bound} {
		w.pass(time.Second)
		w.Update(pod("p", change))
		require.Equal(t, w.clock.Now(), w.Heard("ns"))
	}
	w.pass(time.Second)
	w.Update(pod("p", bound))
	require.NotEqual(t, w.clock.Now(), w.Heard("ns"), "its kubelet writes, too")
	require.Zero(t, w.Heard("elsewhere"))
}

// TestParticipantHeard: only schedulers that take part and are at work count.
func TestParticipantHeard(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("p"), false)
	w.Learn("other", true)
	require.False(t, w.ParticipantHeard(time.Minute), "it has done nothing")
	w.Update(pod("p", nominated))
	require.True(t, w.ParticipantHeard(time.Minute))
	w.pass(time.Minute + time.Second)
	require.False(t, w.ParticipantHeard(time.Minute))
	w.Update(pod("p", bound))
	require.True(t, w.ParticipantHeard(time.Minute))
	w.Learn("other", false)
	require.False(t, w.ParticipantHeard(time.Minute), "it does not take part")
	w.pass(time.Hour)
	w.Add(pod("q"), false)
	w.Learn("other", true)
	w.Update(pod("q", bound))
	require.True(t, w.ParticipantHeard(time.Minute))
	w.Own("other")
	require.False(t, w.ParticipantHeard(time.Minute), "a profile was added")
}

func TestLearn(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("p"), false)
	w.Learn("other", true)
	require.Empty(t, w.names())
	require.Len(t, first(w.all(0)), 1, "from whom more can be learned")
	// A scheduler that does not take part has replaced it.
	w.Update(pod("p", bound))
	w.Add(pod("q"), false)
	w.Learn("other", false)
	require.Equal(t, []string{"p seen bound", "q seen"}, w.names())
	w.Learn("other", true)
	require.Equal(t, []string{"p seen bound", "q seen"}, w.names(), "somebody may want us to believe that")
	w.pass(distrust + time.Second)
	require.Equal(t, []string{"q seen"}, w.names(), "what was learned long ago does not come back")
	w.Learn("other", true)
	require.Empty(t, w.names(), "it was exchanged once more")
}

func first(list []Competitor, _ uint64) []Competitor { return list }

// TestOldPods: pods that were bound before the start show which scheduler had their schedulerName then.
// They do not contend, although they are updated.
func TestOldPods(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("old", bound), true)
	w.Add(pod("p"), true)
	w.pass(24 * time.Hour)
	for range 3 {
		w.Update(pod("old", bound))
	}
	require.Empty(t, w.names(), "nobody has looked after it")
	w.Update(pod("p", bound))
	w.Add(pod("made bound", bound), false)
	w.Add(pod("q"), false)
	require.Equal(t, []string{"made bound seen bound", "p seen bound", "q seen"}, w.names())
}

// TestPlacedByUsers: a pod that was created with a node shows nothing about a scheduler, whatever happens to it.
func TestPlacedByUsers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Add(pod("p"), false)
	w.Add(pod("placed", bound), false)
	w.Update(pod("placed", bound, func(pod *v1.Pod) {
		pod.Labels = map[string]string{"a": "b"}
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	}))
	require.Equal(t, []string{"p", "placed bound"}, w.names())
	require.Zero(t, w.Heard("ns"))
	w.pass(Memory + time.Second)
	require.Empty(t, w.names())
	w.Add(pod("q"), false)
	w.Update(pod("q", bound))
	require.Equal(t, []string{"p seen", "q seen bound"}, w.names())
}

// TestSpare: a pod waits for others only for a small part of its time, and never long.
func TestSpare(t *testing.T) {
	t.Parallel()
	w := newWorld()
	require.Zero(t, w.Spare("p"), "nobody knows it")
	w.Add(pod("p", of("ours")), false)
	require.Zero(t, w.Spare("p"))
	w.pass(ownForOthers * 100 * time.Millisecond)
	require.Equal(t, 100*time.Millisecond, w.Spare("p"))
	w.pass(60 * time.Millisecond)
	w.Spend("p", 60*time.Millisecond)
	require.Equal(t, 40*time.Millisecond, w.Spare("p"))
	w.pass(100 * time.Millisecond)
	w.Spend("p", 100*time.Millisecond)
	require.Zero(t, w.Spare("p"), "it has waited for longer")
	w.Update(pod("p", of("ours"), rejectedPod))
	w.pass(time.Hour)
	require.Equal(t, longestForOthers-160*time.Millisecond, w.Spare("p"), "attempts count together")
	w.Update(pod("p", of("ours"), bound))
	require.Zero(t, w.Spare("p"))
	w.Add(pod("q", of("ours")), false)
	w.Delete("q")
	w.Add(pod("r"), false)
	w.pass(time.Hour)
	require.Zero(t, w.Spare("q"))
	require.Zero(t, w.Spare("r"), "it is not ours")
	require.Empty(t, w.ours)
}

// TestListSince: a caller with a version of the list need only look at newer changes.
func TestListSince(t *testing.T) {
	t.Parallel()
	w := newWorld()
	version := uint64(0)
	changed := func() []string {
		var list []Competitor
		list, version = w.all(version)
		return describe(list)
	}
	w.Add(pod("p"), false)
	w.Add(pod("q"), false)
	w.Add(pod("r", of("third")), false)
	require.Equal(t, []string{"p", "q", "r"}, changed())
	require.Empty(t, changed())
	w.ClaimMade("q")
	w.ClaimMade("of nobody")
	require.Equal(t, []string{"q"}, changed())
	w.Update(pod("p", nominated))
	require.Equal(t, []string{"p seen decided", "q seen"}, changed(), "its scheduler has shown itself")
	w.Update(pod("p", bound))
	require.Equal(t, []string{"p seen bound"}, changed())
	w.Add(pod("s", bound), false)
	require.Equal(t, []string{"s seen bound"}, changed(), "its scheduler is known")
	w.Learn("other", true)
	require.Empty(t, changed())
	w.pass(time.Second)
	w.Learn("other", false)
	require.Equal(t, []string{"p seen bound", "q seen", "s seen bound"}, changed(), "it was exchanged")
	w.Learn("other", false)
	require.Empty(t, changed(), "nothing new")
	w.Delete("q")
	require.Empty(t, changed())
}

// TestListSome: a caller with a limit learns whether there are more pods.
func TestListSome(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range 5 {
		w.Add(pod(fmt.Sprint("p", i)), false)
	}
	for limit, want := range map[int]int{0: 5, 3: 3, 5: 5, 9: 5} {
		list, more := w.List("ns", 0, limit)
		require.Len(t, list, want)
		require.Equal(t, want < 5, more)
	}
	list, more := w.List("elsewhere", 0, 3)
	require.Empty(t, list)
	require.False(t, more)
}

// TestNamesAreForgotten: users may invent names of schedulers.
func TestNamesAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range 1000 {
		name := fmt.Sprint("name-", i)
		w.Add(pod(name, of(name)), false)
		w.Delete(types.UID(name))
		w.Add(pod(name+"-elsewhere", of(name), bound), false)
		w.Delete(types.UID(name + "-elsewhere"))
	}
	w.pass(Memory + time.Second)
	require.Empty(t, w.names())
	require.Empty(t, w.schedulers)
	require.Empty(t, w.pods)
	require.Empty(t, w.in)
	for i := range 1000 {
		name := fmt.Sprint("namespace-", i)
		waiting := pod(name, func(pod *v1.Pod) { pod.Namespace = name })
		w.Add(waiting, false)
		w.Update(pod(name, func(pod *v1.Pod) { pod.Namespace = name }, rejectedPod))
		w.Delete(waiting.UID)
		w.pass(Memory)
	}
	require.Less(t, len(w.heard), 10)
	require.Less(t, len(w.gone), 10)
}
