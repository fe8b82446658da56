package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Verdict is what came out of a question.
type Verdict string

const (
	// Fits means that there is a plan for all pods.
	Fits Verdict = "Fits"
	// DoesNotFit means that there is none for some of them, one after the other as a scheduler goes.
	DoesNotFit Verdict = "DoesNotFit"
	// CannotTell means that there may be one: a search ran out of its budget, or objects are missing.
	CannotTell Verdict = "CannotTell"
)

// Answer is what came out of Fit.
type Answer struct {
	Verdict Verdict
	// Plans are those of the pods that have a place, in the order in which they were tried.
	Plans []Plan
	// Unplaced are the pods that have no place, in the same order. After.Explain says why.
	Unplaced []*v1.Pod
	// Doubts say why it cannot be told, or what may be wrong with a "no".
	Doubts []string
	// Unchecked is what some of the pods ask for that was not looked at, such as ports and volumes.
	Unchecked []string
	// After is the world with the plans carried out.
	After *Snapshot
}

// Plan is where a pod would go and what it would get.
type Plan struct {
	Pod  *v1.Pod
	Node string
	// Claims are those of the pod that would be allocated for it, with their allocation in status.
	Claims []*resourceapi.ResourceClaim
}

// Fit asks whether there is room for pods. All are tried, those of higher spec.priority first and else in their order: each
// has to live with what those before it got, and one without a place is in nobody's way. One with spec.nodeName has to go
// there, as kube-scheduler's plugin NodeName has it. A pod that the snapshot has on a node counts there already, so that
// asking for it fails: ask without it. Otherwise the error is that of the context.
func (s *Snapshot) Fit(ctx context.Context, pods ...*v1.Pod) (*Answer, error) {
	answer := &Answer{Verdict: Fits, After: s}
	for _, pod := range queued(pods) {
		pod = stored(pod)
		if err := answer.After.check(pod); err != nil {
			return nil, err
		}
		answer.Unchecked = appendMissing(answer.Unchecked, unchecked(pod))
		if last := len(answer.Unplaced) - 1; last >= 0 && Alike(answer.Unplaced[last], pod) {
			answer.Unplaced = append(answer.Unplaced, pod) // There is less room now than there was for the other one.
			continue
		}
		plan, after, doubts, err := answer.After.place(ctx, pod)
		switch {
		case err != nil:
			return nil, err
		case plan != nil:
			answer.Plans, answer.After = append(answer.Plans, *plan), after
			continue
		case len(doubts) == 0:
			answer.Verdict = DoesNotFit
		case answer.Verdict == Fits:
			answer.Verdict = CannotTell
		}
		answer.Unplaced, answer.Doubts = append(answer.Unplaced, pod), appendMissing(answer.Doubts, doubts)
	}
	answer.doubt(s.missing)
	return answer, nil
}

// queued is the order in which kube-scheduler tries pods that are created one after the other.
func queued(pods []*v1.Pod) []*v1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0))
	})
}

// Alike reports whether pods ask for the same, each for itself: where one of them has no place, another one has none either.
func Alike(a, b *v1.Pod) bool {
	for i := range a.Spec.ResourceClaims {
		if a.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return false // Others may get the claim allocated meanwhile.
		}
	}
	return a.Namespace == b.Namespace && len(a.Status.ResourceClaimStatuses)+len(b.Status.ResourceClaimStatuses) == 0 &&
		amount.DeepEqual(a.Spec, b.Spec)
}

// Doubt makes an answer uncertain for reasons that the snapshot does not know of.
func (a *Answer) Doubt(why ...string) {
	if len(why) > 0 {
		a.Verdict, a.Doubts = CannotTell, append(a.Doubts, why...)
	}
}

// doubt makes an answer uncertain that may be another one with what could not be read.
func (a *Answer) doubt(missing []Missing) {
	for _, m := range missing {
		a.Doubt(fmt.Sprintf("%s could not be read: %s", m.Resource, m.Why))
	}
}

// check fails for a pod that cannot be placed because it is on a node already.
func (s *Snapshot) check(pod *v1.Pod) error {
	if known := s.pods.get(Key(pod)); known != nil && isOnNode(known) {
		return fmt.Errorf("pod %s is on node %s already; ask a snapshot without it, or for a pod of another name", Key(pod), known.Spec.NodeName)
	}
	return nil
}

// place finds a node for a pod. Without a plan, the doubts say why there may be one after all.
func (s *Snapshot) place(ctx context.Context, pod *v1.Pod) (*Plan, *Snapshot, []string, error) {
	q := s.ask(pod)
	if q.problem != nil {
		return nil, nil, nil, nil
	}
	ctx = s.withSteps(ctx)
	best := choice{}
	undecided := 0
	for i, node := range s.candidates() {
		if !s.mayRun(q, i, node) {
			continue
		}
		v, err := s.devices(ctx, q, i, node)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("looking for devices for pod %s: %w", Key(pod), err)
		}
		if v == gaveUp || v == gaveUpInCommon {
			undecided++
		}
		if v != suffices {
			continue
		}
		if done, err := s.consider(ctx, q, i, node, &best); err != nil {
			return nil, nil, nil, err
		} else if done {
			break
		}
	}
	if best.node == nil {
		return nil, nil, doubts(undecided), nil
	}
	plan, after, err := s.carryOut(ctx, q, best)
	return plan, after, nil, err
}

// hardNodes is for how many nodes that are as hard as they may be one question has steps.
const hardNodes = 100

// withSteps bounds what one question may cost, for all nodes together: one odd claim must not take minutes.
func (s *Snapshot) withSteps(ctx context.Context) context.Context {
	steps := s.solver.StepBudget
	if steps == 0 {
		steps = allocator.DefaultStepBudget
	}
	return allocator.WithSteps(ctx, allocator.NewSteps(hardNodes*steps, len(s.world.places)))
}

func doubts(undecided int) []string {
	if undecided == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the search for devices gave up on %d nodes; a larger step budget may find some", undecided)}
}

// mayRun is whether a node may do for the pod, without looking at devices in use. What is known already is asked
// first, because it costs nothing.
func (s *Snapshot) mayRun(q *question, i int, node *v1.Node) bool {
	if s.freeOn(i, node).lacking(q.askedOf(node)) != "" {
		return false
	}
	if i >= 0 && q.task != nil && s.world.places[i].node == node && s.extra == nil && len(s.usage.changed) == 0 {
		if v := q.known(s, q.task).at(i); v == lacks {
			return false
		}
	}
	return s.unwanted(q, node) == ""
}

// choice is a node for a pod, and what the devices there are worth.
type choice struct {
	node  *v1.Node
	place int
	value allocator.Value
}

// consider compares a node that has devices with the best one so far, and reports whether no other one need be
// looked at.
func (s *Snapshot) consider(ctx context.Context, q *question, i int, node *v1.Node, best *choice) (done bool, err error) {
	objective := s.world.options.Objective
	task, _, _ := q.taskOn(node)
	if objective == nil || task == nil {
		*best = choice{node: node, place: i}
		return true, nil
	}
	rated, err := task.Rate(ctx, s.valued(q, i, node))
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, allocator.ErrInterrupted)):
		return false, err
	case err != nil || !rated.Fits():
		return false, nil // Check said otherwise: the budget did not suffice for comparing.
	}
	if best.node == nil || rated.Value.Compare(best.value) < 0 {
		*best = choice{node: node, place: i, value: rated.Value}
	}
	return false, nil
}

// valued is site for those who compare plans.
func (s *Snapshot) valued(q *question, i int, node *v1.Node) allocator.Site {
	site, _ := s.site(node)
	if site.Objective = s.world.options.Objective; site.Objective != nil {
		free := s.freeOn(i, node)
		site.Free = allocator.Resources{MilliCPU: free.milliCPU, Memory: free.memory >> 20}
		site.Asked = allocator.Resources{MilliCPU: q.asked.milliCPU, Memory: q.asked.memory >> 20}
	}
	return site
}

// carryOut returns the plan for a pod on a node, and the world in which it was carried out.
func (s *Snapshot) carryOut(ctx context.Context, q *question, chosen choice) (*Plan, *Snapshot, error) {
	task, claims, err := q.taskOn(chosen.node)
	if err != nil {
		return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: %w", chosen.node.Name, Key(q.pod), err)
	}
	pod := q.pod.DeepCopy()
	pod.Spec.NodeName = chosen.node.Name
	plan := &Plan{Pod: pod, Node: chosen.node.Name}
	var results []resourceapi.AllocationResult
	if task != nil {
		outcome, err := task.Solve(ctx, s.valued(q, chosen.place, chosen.node))
		if err != nil {
			return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: %w", chosen.node.Name, Key(pod), err)
		}
		if !outcome.Fits() {
			return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: the search found some when it was asked whether there are any, and not when it was asked which", chosen.node.Name, Key(pod))
		}
		results = outcome.Results
	}
	after := *s
	change := make(map[string]*resourceapi.ResourceClaim)
	for i, claim := range claims {
		planned := claim.DeepCopy()
		planned.Status.Allocation = &results[i]
		if extendedresource.OwnerOf(planned) != "" && s.claims.get(Key(planned)) == nil {
			planned.UID = types.UID("planned/" + Key(planned)) // Else it would be another one each time.
		}
		s.nameShares(planned)
		plan.Claims = append(plan.Claims, planned)
		change[Key(planned)] = planned
	}
	for i := range q.allocated {
		claim := q.allocated[i].claim
		if claim = claim.DeepCopy(); change[Key(claim)] == nil {
			change[Key(claim)] = claim
		}
	}
	for _, claim := range change {
		reserve(claim, pod)
	}
	noteClaims(pod, q.made, change)
	after.exchangeClaims(change)
	after.exchangePods(map[string]*v1.Pod{Key(pod): pod})
	return plan, &after, nil
}

// nameShares gives shares (KEP-5075) IDs that depend on nothing but the seed and the claim.
func (s *Snapshot) nameShares(claim *resourceapi.ResourceClaim) {
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if results[i].ShareID != nil {
			id := shareID(fmt.Sprintf("%x/%s/%d", s.world.options.Seed, Key(claim), i))
			results[i].ShareID = &id
		}
	}
}

// noteClaims tells in the status of a pod which claims were made for it, as the API has it.
func noteClaims(pod *v1.Pod, made []v1.PodResourceClaimStatus, used map[string]*resourceapi.ResourceClaim) {
	pod.Status.ResourceClaimStatuses = append(slices.DeleteFunc(pod.Status.ResourceClaimStatuses, func(before v1.PodResourceClaimStatus) bool {
		return slices.ContainsFunc(made, func(m v1.PodResourceClaimStatus) bool { return m.Name == before.Name })
	}), made...)
	for _, claim := range used {
		if extendedresource.OwnerOf(claim) == pod.UID {
			pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
		}
	}
}

func reserve(claim *resourceapi.ResourceClaim, pod *v1.Pod) {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.UID == pod.UID {
			return
		}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
}

// useOf is what a claim holds.
func useOf(claim *resourceapi.ResourceClaim) ledger.Use {
	return ledger.Use{Claim: ledger.RefTo(claim), Allocation: claim.Status.Allocation, ReservedFor: claim.Status.ReservedFor}
}
