package status

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

const (
	pending, running, succeeded, failed = v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed

	none            = v1alpha1.PodGroupPhase("")
	groupPending    = v1alpha1.PodGroupPending
	groupScheduling = v1alpha1.PodGroupScheduling
	groupRunning    = v1alpha1.PodGroupRunning
	groupFinished   = v1alpha1.PodGroupFinished
	groupFailed     = v1alpha1.PodGroupFailed
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// group returns a group with a minMember and a phase.
func group(needed int32, phase v1alpha1.PodGroupPhase) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"},
		Spec: v1alpha1.PodGroupSpec{MinMember: needed}, Status: v1alpha1.PodGroupStatus{Phase: phase}}
}

// pods returns members of that group with the given phases.
func pods(phases ...v1.PodPhase) []*v1.Pod {
	var result []*v1.Pod
	for i, phase := range phases {
		result = append(result, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("worker-%d", i), Labels: map[string]string{v1alpha1.PodGroupLabel: "train"}},
			Status:     v1.PodStatus{Phase: phase},
		})
	}
	return result
}

func TestPhases(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before v1alpha1.PodGroupPhase
		needed int32
		pods   []v1.PodPhase
		want   v1alpha1.PodGroupPhase
	}{
		"a new group is pending":                             {before: none, needed: 2, want: groupPending},
		"a new group is pending first, whatever its pods do": {before: none, needed: 1, pods: []v1.PodPhase{running}, want: groupPending},
		"without pods it stays so":                           {before: groupPending, needed: 2, want: groupPending},
		"with too few pods as well":                          {before: groupPending, needed: 3, pods: []v1.PodPhase{pending, running}, want: groupPending},
		"with enough pods it is being scheduled":             {before: groupPending, needed: 2, pods: []v1.PodPhase{pending, pending}, want: groupScheduling},
		"even if they have ended, which is seen next":        {before: groupPending, needed: 2, pods: []v1.PodPhase{failed, succeeded}, want: groupScheduling},
		"which it is until enough pods run":                  {before: groupScheduling, needed: 2, pods: []v1.PodPhase{pending, running, pending}, want: groupScheduling},
		"running":                                            {before: groupScheduling, needed: 2, pods: []v1.PodPhase{running, running}, want: groupRunning},
		"more pods than needed":                              {before: groupScheduling, needed: 2, pods: []v1.PodPhase{running, pending, running}, want: groupRunning},
		"what has succeeded has run":                         {before: groupScheduling, needed: 2, pods: []v1.PodPhase{running, succeeded}, want: groupRunning},
		"still running":                                      {before: groupRunning, needed: 2, pods: []v1.PodPhase{succeeded, running, pending}, want: groupRunning},
		"pods that run were replaced":                        {before: groupRunning, needed: 2, pods: []v1.PodPhase{running, pending}, want: groupScheduling},
		"pods are gone":                                      {before: groupRunning, needed: 2, pods: []v1.PodPhase{running}, want: groupPending},
		"all pods are gone":                                  {before: groupScheduling, needed: 1, want: groupPending},
		"a pod failed":                                       {before: groupRunning, needed: 3, pods: []v1.PodPhase{running, failed, succeeded}, want: groupFailed},
		"a pod failed while there are not enough yet":        {before: groupScheduling, needed: 3, pods: []v1.PodPhase{running, failed, pending}, want: groupScheduling},
		"a pod failed of more than needed":                   {before: groupRunning, needed: 2, pods: []v1.PodPhase{running, running, failed}, want: groupFailed},
		"finished":                                           {before: groupRunning, needed: 2, pods: []v1.PodPhase{succeeded, succeeded}, want: groupFinished},
		"finished while others run":                          {before: groupRunning, needed: 2, pods: []v1.PodPhase{succeeded, running, succeeded}, want: groupFinished},
		"finished although one of more than needed failed":   {before: groupRunning, needed: 2, pods: []v1.PodPhase{succeeded, failed, succeeded}, want: groupFinished},
		"finished without having been seen to run":           {before: groupScheduling, needed: 1, pods: []v1.PodPhase{succeeded}, want: groupFinished},
		"unknown is no end":                                  {before: v1alpha1.PodGroupUnknown, needed: 1, pods: []v1.PodPhase{running}, want: groupRunning},
		"nor is the phase of an older version":               {before: "PreScheduling", needed: 2, pods: []v1.PodPhase{running, pending}, want: groupScheduling},
		"without minMember, one pod is needed":               {before: groupPending, needed: 0, want: groupPending},
		"without minMember, with one pod":                    {before: groupScheduling, needed: 0, pods: []v1.PodPhase{running}, want: groupRunning},
		"minMember below what it may be":                     {before: groupPending, needed: -3, want: groupPending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Next(group(tc.needed, tc.before), pods(tc.pods...), now).Phase)
		})
	}
}

func TestFinalStatesStay(t *testing.T) {
	t.Parallel()
	for _, phase := range []v1alpha1.PodGroupPhase{groupFinished, groupFailed} {
		g := group(1, phase)
		g.Status.Running, g.Status.Succeeded = 7, 8
		for _, members := range [][]*v1.Pod{nil, pods(running, running), pods(failed), pods(pending)} {
			require.Equal(t, g.Status, Next(g, members, now))
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, before := range []v1alpha1.PodGroupPhase{none, groupPending, groupScheduling, groupRunning} {
		g := group(10, before)
		g.Status.Running, g.Status.Succeeded, g.Status.Failed = 7, 8, 9
		next := Next(g, pods(running, failed, pending, running, succeeded, running, v1.PodUnknown, failed, ""), now)
		require.Equal(t, v1alpha1.PodGroupStatus{Phase: groupPending, Running: 3, Succeeded: 1, Failed: 2}, next)
	}
}

// Pods of other groups do not count, whatever their names and labels.
func TestOnlyMembersCount(t *testing.T) {
	t.Parallel()
	others := pods(failed, running, running)
	others[0].Namespace = "other"
	others[1].Labels[v1alpha1.PodGroupLabel] = "serve"
	others[2].Labels = nil
	require.Equal(t, v1alpha1.PodGroupStatus{Phase: groupPending}, Next(group(1, groupRunning), others, now))
	require.Equal(t, v1alpha1.PodGroupStatus{Phase: groupPending}, Next(group(1, groupPending), others, now))
}

func TestOccupiedBy(t *testing.T) {
	t.Parallel()
	owned := func(names ...string) []metav1.OwnerReference {
		var result []metav1.OwnerReference
		for _, name := range names {
			result = append(result, metav1.OwnerReference{Name: name, UID: "uid"})
		}
		return result
	}
	for name, tc := range map[string]struct {
		before string
		phase  v1alpha1.PodGroupPhase
		owners [2][]metav1.OwnerReference
		want   string
	}{
		"nobody":                         {phase: groupPending},
		"nobody any more":                {phase: groupPending, before: "ml/old", want: "ml/old"},
		"one owner":                      {phase: groupPending, owners: [2][]metav1.OwnerReference{owned("job"), owned("other")}, want: "ml/job"},
		"several, sorted":                {phase: groupPending, before: "ml/old", owners: [2][]metav1.OwnerReference{owned("job", "a")}, want: "ml/a,ml/job"},
		"the first pod has none":         {phase: groupPending, owners: [2][]metav1.OwnerReference{nil, owned("other")}, want: "ml/other"},
		"not when it is scheduled again": {phase: groupRunning, before: "ml/old", owners: [2][]metav1.OwnerReference{owned("job")}, want: "ml/old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, members := group(2, tc.phase), pods(pending, pending)
			g.Status.OccupiedBy = tc.before
			members[0].OwnerReferences, members[1].OwnerReferences = tc.owners[0], tc.owners[1]
			next := Next(g, members, now)
			require.Equal(t, groupScheduling, next.Phase)
			require.Equal(t, tc.want, next.OccupiedBy)
			slices.Reverse(members)
			require.Equal(t, next, Next(g, members, now), "the order of the pods does not matter")
		})
	}
}

func TestScheduleStartTime(t *testing.T) {
	t.Parallel()
	long := metav1.NewTime(now.Add(-time.Hour))
	for name, tc := range map[string]struct {
		before v1alpha1.PodGroupPhase
		pods   []v1.PodPhase
		want   metav1.Time
	}{
		"being scheduled":           {before: groupPending, pods: []v1.PodPhase{pending}, want: metav1.NewTime(now)},
		"being scheduled once more": {before: groupRunning, pods: []v1.PodPhase{pending}, want: metav1.NewTime(now)},
		"still being scheduled":     {before: groupScheduling, pods: []v1.PodPhase{pending}, want: long},
		"running":                   {before: groupScheduling, pods: []v1.PodPhase{running}, want: long},
		"pending":                   {before: groupScheduling, want: long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := group(1, tc.before)
			g.Status.ScheduleStartTime = long
			require.Equal(t, tc.want, Next(g, pods(tc.pods...), now.Add(999*time.Millisecond)).ScheduleStartTime)
			require.Equal(t, long, g.Status.ScheduleStartTime)
		})
	}
}

// Repeated calls with the result reach a fixed point.
func TestComesToRest(t *testing.T) {
	t.Parallel()
	phases := []v1.PodPhase{pending, running, succeeded, failed}
	for _, before := range []v1alpha1.PodGroupPhase{none, groupPending, groupScheduling, groupRunning, v1alpha1.PodGroupUnknown} {
		for i := range len(phases) * len(phases) * len(phases) {
			for needed := range int32(5) {
				g := group(needed, before)
				members := pods(phases[i%4], phases[i/4%4], phases[i/16])
				var seen []v1alpha1.PodGroupStatus
				for !slices.Contains(seen, g.Status) {
					seen = append(seen, g.Status)
					g.Status = Next(g, members, now)
				}
				require.Equal(t, seen[len(seen)-1], g.Status, "goes around in circles: %v", seen)
				require.LessOrEqual(t, len(seen), 4)
			}
		}
	}
}
