package preemption

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// wholeGang is a gang that needs all of its pods.
type wholeGang []*v1.Pod

func (wholeGang) Beyond(*v1.Pod) int { return 0 }

func (g wholeGang) Together(pods []*v1.Pod) []*v1.Pod {
	pods = slices.Clip(pods)
	for _, pod := range g {
		if pod.DeletionTimestamp == nil && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// groupPreemptor is a PodGroup of the API.
type groupPreemptor struct{ *gangPreemptor }

// victims are those of one eviction.
type victims struct {
	nodeOf
	pods []*v1.Pod
}

func (v victims) Victims() *extenderv1.Victims { return &extenderv1.Victims{Pods: v.pods} }

// TestCompanionsOfOneWhoIsLeaving: upstream does not evict a pod that is being deleted, so the rest of its gang must
// not go with it.
func TestCompanionsOfOneWhoIsLeaving(t *testing.T) {
	t.Parallel()
	var gang wholeGang
	for i := range 3 {
		gang = append(gang, builder.Pod(fmt.Sprint("p", i), func(pod *v1.Pod) {
			pod.UID = types.UID(pod.Name)
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
		}))
	}
	highest := int32(1000)
	preemptor := groupPreemptor{&gangPreemptor{Pod: builder.Pod("high", func(pod *v1.Pod) { pod.Spec.Priority = &highest })}}
	e := &eviction{gangs: gang}
	chosen := victims{pods: gang[:2]}
	require.Equal(t, []*v1.Pod{gang[2]}, e.companions(chosen, preemptor, gang[0]), "with the first one")
	require.Empty(t, e.companions(chosen, preemptor, gang[1]))
	gang[0].DeletionTimestamp = &metav1.Time{}
	require.Equal(t, []*v1.Pod{gang[2]}, e.companions(chosen, preemptor, gang[1]), "with the first one that is evicted")
}

// TestBudgetsOfCompanions: companions of a victim count for PodDisruptionBudgets as well.
func TestBudgetsOfCompanions(t *testing.T) {
	t.Parallel()
	labelled := func(name string, labels map[string]string) *v1.Pod {
		return builder.Pod(name, func(pod *v1.Pod) { pod.Labels = labels })
	}
	budget := &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	victim, companion, last := labelled("v", nil), labelled("c", map[string]string{"app": "a"}), labelled("l", map[string]string{"app": "a"})
	budgets := []*policy.PodDisruptionBudget{budget}
	require.Zero(t, violations([]*v1.Pod{victim}, budgets))
	require.Zero(t, violations([]*v1.Pod{victim, companion}, budgets))
	require.Equal(t, 1, violations([]*v1.Pod{victim, companion, last}, budgets))
}

// brokenSnapshot is a snapshot from which no pod can be removed.
type brokenSnapshot struct {
	fwk.MutableSnapshotSharedLister
	open int
}

func (s *brokenSnapshot) StartMutations() error { s.open++; return nil }
func (s *brokenSnapshot) EndMutations() error   { s.open--; return nil }

func (s *brokenSnapshot) RemovePod(klog.Logger, *v1.Pod, string) error { return errors.New("broken") }

// TestGuardFails: if StartMutations fails, it ends the mutations itself, since its caller does not.
func TestGuardFails(t *testing.T) {
	t.Parallel()
	info, err := framework.NewPodInfo(builder.Pod("p"))
	require.NoError(t, err)
	snapshot := &brokenSnapshot{}
	require.ErrorContains(t, guardedSnapshot{snapshot, []fwk.PodInfo{info}}.StartMutations(), "guard pod default/p: broken")
	require.Zero(t, snapshot.open)
}
