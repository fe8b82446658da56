package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Verdict is the result of a question.
type Verdict string

const (
	// Fits means that there is a plan for all pods.
	Fits Verdict = "Fits"
	// DoesNotFit means that some pods have no place when pods are placed one after the other, as a
	// scheduler does.
	DoesNotFit Verdict = "DoesNotFit"
	// CannotTell means that there may be a plan: a search ran out of its budget, or objects are
	// missing.
	CannotTell Verdict = "CannotTell"
)

// Answer is the result of Fit.
type Answer struct {
	Verdict Verdict
	// Plans holds the plans of the pods with a place, in the order in which they were tried.
	Plans []Plan
	// Unplaced lists the pods without a place, in the same order. After.Explain says why.
	Unplaced []*v1.Pod
	// Doubts says why the verdict is CannotTell, or why a "no" may be wrong.
	Doubts []string
	// Unchecked lists what some of the pods ask for that was not checked, for example ports and
	// volumes.
	Unchecked []string
	// After is the world after the plans were carried out.
	After *Snapshot
}

// Plan says where a pod would go and what would be allocated for it.
type Plan struct {
	Pod  *v1.Pod
	Node string
	// Claims holds the pod's claims that would be allocated for it, with the allocation in their
	// status.
	Claims []*resourceapi.ResourceClaim
}

// Fit asks whether there is room for pods. It tries all of them, those of higher spec.priority
// first, otherwise in their order. Each pod finds the world as the pods before it left it; a pod
// without a place takes nothing. A pod with spec.nodeName must go to that node, as in
// kube-scheduler's NodeName plugin. Fit fails for a pod that is on a node in the snapshot, because
// it already counts there: ask a snapshot without it. Any other error is that of the context.
func (s *Snapshot) Fit(ctx context.Context, pods ...*v1.Pod) (*Answer, error) {
	answer := &Answer{Verdict: Fits, After: s}
	for _, pod := range queued(pods) {
		pod = stored(pod)
		if err := answer.After.check(pod); err != nil {
			return nil, err
		}
		answer.Unchecked = appendMissing(answer.Unchecked, unchecked(pod))
		if last := len(answer.Unplaced) - 1; last >= 0 && Alike(answer.Unplaced[last], pod) {
			answer.Unplaced = append(answer.Unplaced, pod) // There is no more room now than there was for the other pod.
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

// queued returns the order in which kube-scheduler tries pods that are created one after the other.
func queued(pods []*v1.Pod) []*v1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a))
	})
}

// Alike reports whether two pods ask for the same, each for itself: if one has no place, neither
// has the other.
func Alike(a, b *v1.Pod) bool {
	for i := range a.Spec.ResourceClaims {
		if a.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return false // Another pod may get the claim allocated meanwhile.
		}
	}
	return a.Namespace == b.Namespace && len(a.Status.ResourceClaimStatuses)+len(b.Status.ResourceClaimStatuses) == 0 &&
		quantity.DeepEqual(a.Spec, b.Spec)
}

// Doubt makes an answer uncertain for reasons that the snapshot does not know.
func (a *Answer) Doubt(why ...string) {
	if len(why) > 0 {
		a.Verdict, a.Doubts = CannotTell, append(a.Doubts, why...)
	}
}

// doubt makes an answer uncertain if objects could not be read that may change it.
func (a *Answer) doubt(missing []Missing) {
	for _, m := range missing {
		a.Doubt(fmt.Sprintf("%s could not be read: %s", m.Resource, m.Why))
	}
}

// check fails for a pod that is already on a node.
func (s *Snapshot) check(pod *v1.Pod) error {
	if known := s.pods.get(Key(pod)); known != nil && isOnNode(known) {
		return fmt.Errorf("pod %s is on node %s already; ask a snapshot without it, or for a pod of another name", Key(pod), known.Spec.NodeName)
	}
	return nil
}

// place finds a node for a pod. Without a plan, the doubts say why there may be one nevertheless.
func (s *Snapshot) place(ctx context.Context, pod *v1.Pod) (*Plan, *Snapshot, []string, error) {
	q := s.ask(pod)
	if q.problem != nil {
		return nil, nil, nil, nil
	}
	ctx = s.withSteps(ctx)
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
		if v == suffices {
			plan, after, err := s.carryOut(ctx, q, node)
			return plan, after, nil, err
		}
	}
	return nil, nil, doubts(undecided), nil
}

// hardNodes is the number of the hardest possible nodes that the steps of one question suffice for.
const hardNodes = 100

// withSteps limits the steps of one question for all nodes together: one odd claim must not take
// minutes.
func (s *Snapshot) withSteps(ctx context.Context) context.Context {
	steps := s.solver.StepBudget
	if steps == 0 {
		steps = allocator.DefaultStepBudget
	}
	return allocator.WithSteps(ctx, allocator.NewSteps(hardNodes*steps, len(s.world.nodes)))
}

func doubts(undecided int) []string {
	if undecided == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the search for devices gave up on %d nodes; a larger step budget may find some", undecided)}
}

// mayRun reports whether the pod may fit on a node, without a search for devices. It looks at
// cached verdicts first, because they cost nothing.
func (s *Snapshot) mayRun(q *question, i int, node *v1.Node) bool {
	if s.freeOn(i, node).lacking(q.askedOf(node)) != "" {
		return false
	}
	if i >= 0 && q.task != nil && s.world.nodes[i].node == node && s.extra == nil && len(s.usage.changed) == 0 {
		if v := q.known(s, q.task).at(i); v == lacks {
			return false
		}
	}
	return s.unwanted(q, node) == ""
}

// carryOut returns the plan for a pod on a node, and the world after it.
func (s *Snapshot) carryOut(ctx context.Context, q *question, node *v1.Node) (*Plan, *Snapshot, error) {
	task, claims, err := q.taskOn(node)
	if err != nil {
		return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: %w", node.Name, Key(q.pod), err)
	}
	pod := q.pod.DeepCopy()
	pod.Spec.NodeName = node.Name
	plan := &Plan{Pod: pod, Node: node.Name}
	var results []resourceapi.AllocationResult
	if task != nil {
		site, _ := s.site(node)
		outcome, err := task.Solve(ctx, site)
		if err != nil {
			return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: %w", node.Name, Key(pod), err)
		}
		if !outcome.Fits() {
			return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: the search found some when it was asked whether there are any, and not when it was asked which", node.Name, Key(pod))
		}
		results = outcome.Results
	}
	charge, err := s.charge(q, node, claims, results)
	if err != nil {
		return nil, nil, fmt.Errorf("allocating devices of node %s for pod %s: %w", node.Name, Key(pod), err)
	}
	pod.Status.NodeAllocatableResourceClaimStatuses = charge.status
	after := *s
	change := make(map[string]*resourceapi.ResourceClaim)
	for i, claim := range claims {
		planned := claim.DeepCopy()
		planned.Status.Allocation = &results[i]
		if podclaims.MadeFor(planned) != "" && s.claims.get(Key(planned)) == nil {
			planned.UID = types.UID("planned/" + Key(planned)) // Otherwise the UID would differ each time.
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

// nameShares gives shares (KEP-5075) IDs that depend only on the seed and the claim.
func (s *Snapshot) nameShares(claim *resourceapi.ResourceClaim) {
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if results[i].ShareID != nil {
			id := shareID(fmt.Sprintf("%x/%s/%d", s.world.options.Seed, Key(claim), i))
			results[i].ShareID = &id
		}
	}
}

// noteClaims records in the status of a pod which claims were made for it, as the API does.
func noteClaims(pod *v1.Pod, made []v1.PodResourceClaimStatus, used map[string]*resourceapi.ResourceClaim) {
	pod.Status.ResourceClaimStatuses = append(slices.DeleteFunc(pod.Status.ResourceClaimStatuses, func(before v1.PodResourceClaimStatus) bool {
		return slices.ContainsFunc(made, func(m v1.PodResourceClaimStatus) bool { return m.Name == before.Name })
	}), made...)
	for _, claim := range used {
		if podclaims.MadeFor(claim) == pod.UID {
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

// useOf returns the use of devices by a claim.
func useOf(claim *resourceapi.ResourceClaim) ledger.Use {
	return ledger.Use{Claim: ledger.RefTo(claim), Allocation: claim.Status.Allocation, ReservedFor: claim.Status.ReservedFor}
}
