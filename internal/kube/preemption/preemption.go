// Package preemption has kube-scheduler's preemption as other plugins can build on it. It is apart from package kube
// because it links much of kube-scheduler, which kubectl devices does without.
//
// It was rewritten for 1.36 and again for 1.37. 1.38 lets callers choose how victims of a PodGroup are grouped, ordered
// and evicted, and orders those that violate PodDisruptionBudgets differently (kubernetes/kubernetes#141932).
package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

type (
	// Candidate is a node with the victims that would have to leave it.
	Candidate = preemption.Candidate
	// DefaultPreemption is kube-scheduler's plugin, which evicts pods on the node.
	DefaultPreemption = defaultpreemption.DefaultPreemption
	// DomainVictim is a victim with the nodes that it is on.
	DomainVictim = preemption.DomainVictim
	// Executor evicts victims.
	Executor = preemption.Executor
	// Interface has the decisions that an Evaluator leaves to a plugin.
	Interface = preemption.Interface
	// MoreImportant reports whether the first victim is more important than the second one.
	MoreImportant = defaultpreemption.MoreImportantVictimFunc
	// Preemptor is the pod or the group that others are evicted for.
	Preemptor = preemption.ExecutorPreemptor
	// Victim is a pod, or the pods of a group that are evicted together.
	Victim = preemption.Victim
)

// The numbers of candidate nodes if a profile has no arguments for them: the defaults of DefaultPreemptionArgs.
const (
	minCandidateNodesPercentage = 10
	minCandidateNodesAbsolute   = 100
)

// NewDefaultPreemption returns the plugin DefaultPreemption with default arguments.
func NewDefaultPreemption(ctx context.Context, handle fwk.Handle, features feature.Features) (*DefaultPreemption, error) {
	args := &config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: minCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   minCandidateNodesAbsolute,
	}
	return defaultpreemption.New(ctx, args, handle, features)
}

// SetInterface leaves the decisions of DefaultPreemption to the plugin of the given name. Pods are still evicted by its
// own Executor.
func SetInterface(plugin *DefaultPreemption, name string, handle fwk.Handle, decisions Interface) {
	plugin.Evaluator = preemption.NewEvaluator(name, handle, decisions, plugin.Executor)
}

// FilterVictimsWithPDBViolation divides victims by whether their eviction would violate a PodDisruptionBudget. Both
// halves keep the order.
func FilterVictimsWithPDBViolation[V Victim](victims []V, budgets []*policy.PodDisruptionBudget) (violating, others []V) {
	found, others := preemption.FilterVictimsWithPDBViolation(victims, budgets)
	for _, victim := range found {
		violating = append(violating, victim.Victim)
	}
	return violating, others
}

// MoreImportantVictim reports whether kube-scheduler would rather evict b than a.
func MoreImportantVictim(a, b Victim) bool { return preemption.MoreImportantVictim(a, b) }

// NewPodVictim returns a pod as a victim of its own, whatever PodGroup it is in.
func NewPodVictim(pod fwk.PodInfo) Victim { return preemption.NewPodVictim(pod, nil, nil) }

// NewGroupVictim returns pods that are evicted together as one victim, with the priority of the first one. It fails if
// there are none.
func NewGroupVictim(pods []fwk.PodInfo) (Victim, error) {
	if len(pods) == 0 {
		return preemption.NewVictim(nil, 0, fwk.PodGroupKeyType)
	}
	return preemption.NewVictim(pods, PodPriority(pods[0].GetPod(), nil), fwk.PodGroupKeyType)
}

// PodPriority returns the priority of a pod for preemption: that of its PodGroup if groups are given and have it.
func PodPriority(pod *v1.Pod, groups fwk.PodGroupLister) int32 {
	return preemption.GetPodPriority(pod, groups, nil)
}
