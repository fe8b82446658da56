package preemption

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func named(name string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name, edits...)
	pod.UID = types.UID(name)
	return pod
}

func nominatedFor(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Status.NominatedNodeName = node }
}

// nomination returns a nomination with priority 10 that keeps device gpu-0 of pool n1.
func nomination(pod string) *Nomination {
	claim := builder.Claim(pod).Allocated("n1", "gpu-0")
	return &Nomination{Pod: types.UID(pod), Priority: 10, Node: "n1", Plan: []ledger.Use{{Claim: ledger.RefTo(claim), Allocation: claim.Status.Allocation}}}
}

func TestWhoLeavesKeptDevicesAlone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	n := NewNominations()
	n.Set(nomination("p"))
	ofGroup := nomination("member")
	ofGroup.Group = builder.Namespace + "/g"
	n.Set(ofGroup)
	ofOthers := nomination("theirs")
	ofOthers.Theirs, ofOthers.Until = true, now.Add(time.Minute)
	n.Set(ofOthers)
	require.Len(t, n.Against(named("low"), 0, now), 3)
	require.Len(t, n.Against(named("same"), 10, now), 2, "nor another scheduler's pod of the same priority")
	require.Empty(t, n.Against(named("more"), 11, now), "of higher priority")
	require.Len(t, n.Against(named("p"), 10, now), 1, "not its own")
	require.Len(t, n.Against(named("another", builder.InGroup("g")), 10, now), 1, "not its group's")
	require.Len(t, n.Against(named("low"), 0, now.Add(2*time.Minute)), 2, "nor for ever for another scheduler's pod")
}

// TestPlanForNominationThatEnds: a nomination may end while a plan is made for it.
func TestPlanForNominationThatEnds(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(n *Nominations, nominated *v1.Pod){
		"for none":         func(n *Nominations, nominated *v1.Pod) { n.Changed(nominated, named("p")) },
		"for another node": func(n *Nominations, nominated *v1.Pod) { n.Changed(nominated, named("p", nominatedFor("n2"))) },
		"gone":             func(n *Nominations, nominated *v1.Pod) { n.Changed(nominated, nil) },
	} {
		n, nominated := NewNominations(), named("p", nominatedFor("n1"))
		n.Changed(nil, nominated)
		require.Len(t, n.Unplanned("other", 0, ranking(func(*v1.Pod) int32 { return 10 }), time.Unix(1000, 0)), 1, name)
		ends(n, nominated)
		_, ok := n.SetNominated(nomination("p"))
		require.False(t, ok, name)
		require.Nil(t, n.Of("p"), name)
	}
	n := NewNominations()
	n.Changed(nil, named("p", nominatedFor("n1")))
	_, ok := n.SetNominated(nomination("p"))
	require.True(t, ok)
	require.NotNil(t, n.Of("p"))
}

func TestNominationsEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before, after *v1.Pod
		ends          bool
	}{
		"bound":                  {before: named("p", nominatedFor("n1")), after: named("p", nominatedFor("n1"), func(pod *v1.Pod) { pod.Spec.NodeName = "n2" }), ends: true},
		"failed":                 {before: named("p", nominatedFor("n1")), after: named("p", nominatedFor("n1"), func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }), ends: true},
		"gone":                   {before: named("p", nominatedFor("n1")), ends: true},
		"replaced":               {before: named("p", nominatedFor("n1")), after: named("q"), ends: true},
		"nominated for none":     {before: named("p", nominatedFor("n1")), after: named("p"), ends: true},
		"nominated for another":  {before: named("p", nominatedFor("n1")), after: named("p", nominatedFor("n2")), ends: true},
		"not written yet":        {before: named("p"), after: named("p")},
		"written":                {before: named("p"), after: named("p", nominatedFor("n1"))},
		"written, after another": {before: named("p", nominatedFor("n0")), after: named("p", nominatedFor("n1"))},
		"an earlier one, late":   {before: named("p"), after: named("p", nominatedFor("n0"))},
		"its end, late":          {before: named("p", nominatedFor("n0")), after: named("p")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := NewNominations()
			n.Set(nomination("p"))
			freed := n.Changed(test.before, test.after)
			require.Equal(t, test.ends, n.Of("p") == nil)
			if test.ends {
				require.Equal(t, ledger.Freed{inventory.PoolID{Driver: builder.Driver, Name: "n1"}: {"gpu-0"}}, freed)
			} else {
				require.Empty(t, freed)
			}
		})
	}
}

func TestPlanSoon(t *testing.T) {
	t.Parallel()
	n, now, byPod := NewNominations(), time.Unix(1000, 0), corev1helpers.PodPriority
	require.False(t, n.PlanSoon("p", now), "not nominated")
	n.Changed(nil, named("p", nominatedFor("n1"), func(pod *v1.Pod) { pod.Spec.Priority = new(int32) }))
	require.Len(t, n.Unplanned("x", -1, ranking(byPod), now), 1)
	require.True(t, n.PlanSoon("p", now))
	require.Len(t, n.Unplanned("x", -1, ranking(byPod), now), 1, "at once")
	require.False(t, n.PlanSoon("p", now.Add(2*UndecidedFor)), "others waited long enough")
	require.Empty(t, n.Unplanned("x", -1, ranking(byPod), now))
}

// TestNomineeWaits: a pod is nominated before it is known not to fit.
func TestNomineeWaits(t *testing.T) {
	t.Parallel()
	n, nominee := NewNominations(), named("p", nominatedFor("n1"))
	n.Changed(nil, nominee)
	now, told := time.Unix(1000, 0), nominee.DeepCopy()
	told.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
	require.Empty(t, n.Unplanned("x", 0, toldRanking{ranking(corev1helpers.PodPriority)}, now))
	n.Changed(nominee, told)
	require.Len(t, n.Unplanned("x", 0, toldRanking{ranking(corev1helpers.PodPriority)}, now), 1)
}

// toldRanking is a Ranking in which the pods with a condition wait.
type toldRanking struct{ ranking }

func (toldRanking) Waits(pod *v1.Pod) bool { return len(pod.Status.Conditions) > 0 }

// ranking is a Ranking in which no pod waits.
type ranking func(*v1.Pod) int32

func (r ranking) Priority(pod *v1.Pod) int32 { return r(pod) }

func (ranking) Waits(*v1.Pod) bool { return false }

// waitingRanking is a Ranking in which all pods wait.
type waitingRanking struct{ ranking }

func (waitingRanking) Waits(*v1.Pod) bool { return true }

func TestUnplanned(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	byPod := corev1helpers.PodPriority
	n := NewNominations()
	n.Changed(nil, named("p", nominatedFor("n1"), func(pod *v1.Pod) { pod.Spec.Priority = new(int32) }))
	require.Empty(t, n.Unplanned("x", 0, ranking(byPod), now), "of the same priority")
	require.Len(t, n.Unplanned("x", 0, waitingRanking{ranking(byPod)}, now.Add(-planAgainAfter)), 1, "of the same priority, and it waits")
	require.Empty(t, n.Unplanned("p", -1, ranking(byPod), now), "its own")
	require.Len(t, n.Unplanned("x", -1, ranking(byPod), now), 1)
	require.Empty(t, n.Unplanned("x", -1, ranking(byPod), now), "not again at once")
	require.Len(t, n.Unplanned("x", -1, ranking(byPod), now.Add(planAgainAfter)), 1)
	require.Empty(t, n.Unplanned("x", -1, ranking(byPod), now.Add(2*KeptForOthers)))
	n.Set(nomination("p"))
	require.Empty(t, n.Unplanned("x", -1, ranking(byPod), now.Add(3*planAgainAfter)))
	n.Changed(named("p", nominatedFor("n1")), named("p"))
	require.Empty(t, n.Unplanned("x", -1, ranking(byPod), now.Add(5*planAgainAfter)))
}

// TestPlannedAgain: a plan that was impossible at first, because not all victims were leaving yet, is made before any
// of them is gone and others can take its devices.
func TestPlannedAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	withClaim := func(pod *v1.Pod) { pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c"}} }
	leaving := func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }
	bound := func(pod *v1.Pod) { pod.Spec.NodeName = "n1" }
	tests := map[string]struct {
		before, after *v1.Pod
		again         bool
	}{
		"leaves":            {before: named("v", withClaim, bound), after: named("v", withClaim, bound, leaving), again: true},
		"gone":              {before: named("v", withClaim, bound, leaving), again: true},
		"replaced":          {before: named("v", withClaim, bound), after: named("w", withClaim), again: true},
		"ended":             {before: named("v", withClaim, bound), after: named("v", withClaim, bound, func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }), again: true},
		"leaving already":   {before: named("v", withClaim, bound, leaving), after: named("v", withClaim, bound, leaving)},
		"holds no devices":  {before: named("v", bound)},
		"another one comes": {after: named("v", withClaim)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := NewNominations()
			n.Changed(nil, named("p", nominatedFor("n1")))
			require.Len(t, n.Unplanned("x", -1, ranking(corev1helpers.PodPriority), now), 1)
			n.Changed(test.before, test.after)
			require.Equal(t, test.again, len(n.Unplanned("x", -1, ranking(corev1helpers.PodPriority), now)) == 1)
		})
	}
}
