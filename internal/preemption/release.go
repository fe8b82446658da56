package preemption

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// workers is the number of claims that are released at the same time: each takes a write or two.
	workers = 4
	// Pauses after failures, for each claim. claims/write repeats a write several times before it
	// counts as one failure.
	firstPause, longestPause = 100 * time.Millisecond, 30 * time.Second
)

// Release deallocates claims that preemptors wait for as soon as nobody uses them. It is safe for
// concurrent use.
type Release struct {
	writer   *write.Writer
	known    *podclaims.Claims
	observer write.Observer
	ofGroup  GroupUsage
	waiting  Preemptors
	// queue holds the UIDs of claims to look at.
	queue workqueue.TypedRateLimitingInterface[types.UID]
	// questions holds pods of PodGroups that are gone.
	questions workqueue.TypedRateLimitingInterface[departure]

	mutex sync.Mutex
	// claims holds the awaited claims by UID, and preemptors the same by preemptor: a claim is in
	// one if and only if it is in the other.
	claims     map[types.UID]*awaited
	preemptors map[types.UID]sets.Set[types.UID]
	// vanished holds the pods that are gone, by the claims of their PodGroups.
	vanished map[types.UID]*vanished
}

// awaited is a claim that preemptors wait for.
type awaited struct {
	ref        ledger.ClaimRef
	preemptors sets.Set[types.UID]
	// departed holds the evidence about pods that have ended, or are gone and never were on a node, as far as
	// the informer has shown. As a UID never comes back, the API server need not be asked about them.
	departed map[types.UID]write.Unbound
	// lost is set once a pod that used it is gone, until the claim is found in use nevertheless.
	lost bool
}

// GroupUsage says whether a PodGroup for which a claim is reserved needs it. If not (Abandoned), it returns the
// evidence, and no pod of the group begins to use the claim until end is called.
type GroupUsage func(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (state Usage, unbound write.Unbound, end func(), err error)

// Preemptors are pods for which others were evicted.
type Preemptors interface {
	// PlanAgain is called for a preemptor that waits for a claim which others use on, although a pod that used it is
	// gone.
	PlanAgain(preemptor types.UID)
	// ClaimFreed is called for a preemptor when a claim that it waits for has no devices any more.
	ClaimFreed(preemptor types.UID)
}

// NewRelease returns a Release. observer is told of claims as the server has them after they were released, and ofGroup
// says whether a PodGroup for which a claim is reserved needs it.
func NewRelease(writer *write.Writer, known *podclaims.Claims, observer write.Observer, ofGroup GroupUsage, preemptors Preemptors) *Release {
	return &Release{
		writer:     writer,
		known:      known,
		observer:   observer,
		ofGroup:    ofGroup,
		waiting:    preemptors,
		queue:      workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstPause, longestPause)),
		questions:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[departure](firstPause, longestPause)),
		claims:     make(map[types.UID]*awaited),
		preemptors: make(map[types.UID]sets.Set[types.UID]),
		vanished:   make(map[types.UID]*vanished),
	}
}

// Await has claims released as soon as nobody uses them any more, for the preemptor with that
// UID. It replaces what was awaited for it before: without claims, it ends that.
func (r *Release) Await(preemptor types.UID, claims ...ledger.ClaimRef) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before, now := r.preemptors[preemptor], sets.New[types.UID]()
	for _, ref := range claims {
		claim := r.claims[ref.UID]
		if claim == nil {
			claim = &awaited{ref: ref, preemptors: sets.New[types.UID](), departed: make(map[types.UID]write.Unbound)}
			r.claims[ref.UID] = claim
		}
		claim.preemptors.Insert(preemptor)
		now.Insert(ref.UID)
		r.queue.Add(ref.UID) // Its consumers may be gone already.
	}
	for uid := range before.Difference(now) {
		r.leave(preemptor, uid)
	}
	if now.Len() > 0 {
		r.preemptors[preemptor] = now
	} else {
		delete(r.preemptors, preemptor)
	}
}

// leave removes a preemptor from those that wait for a claim. It needs the mutex.
func (r *Release) leave(preemptor, uid types.UID) {
	claim := r.claims[uid]
	claim.preemptors.Delete(preemptor)
	if claim.preemptors.Len() == 0 {
		delete(r.claims, uid)
	}
}

// drop forgets a claim that is gone, and tells the preemptors that waited for it.
func (r *Release) drop(uid types.UID) {
	defer r.tellFreed(uid)()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	claim := r.claims[uid]
	if claim == nil {
		return
	}
	delete(r.claims, uid)
	for preemptor := range claim.preemptors {
		r.preemptors[preemptor].Delete(uid)
		if r.preemptors[preemptor].Len() == 0 {
			delete(r.preemptors, preemptor)
		}
	}
}

// Awaited reports whether the claim is awaited by anybody.
func (r *Release) Awaited(claim types.UID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.claims[claim] != nil
}

// cause is why a claim is released.
func (r *Release) cause(claim types.UID) write.Cause {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	why := "because nobody uses it any more, and a pod that preempts others waits for its devices"
	if found := r.claims[claim]; found != nil && found.preemptors.Len() == 1 {
		why += " (UID " + string(sets.List(found.preemptors)[0]) + ")"
	}
	return write.Cause{Why: why}
}

// podChanged is told of pods that were deleted or replaced, or are done, after the informer's store has
// been updated. last says that the pod was deleted in this state.
func (r *Release) podChanged(pod *v1.Pod, last bool) {
	r.mutex.Lock()
	awaits := len(r.claims) > 0
	r.mutex.Unlock()
	if !awaits {
		return
	}
	gone := !samePod(r.known.Pod(pod.Namespace, pod.Name), pod.UID)
	unbound, departed := write.Ended(pod)
	if last && !departed {
		unbound, departed = write.Deleted(pod)
	}
	for _, name := range podclaims.NamesOf(pod) {
		claim := r.known.Claim(pod.Namespace, name)
		if claim == nil {
			continue // ClaimChanged is told of it.
		}
		r.mutex.Lock()
		if found := r.claims[claim.UID]; found != nil {
			if departed {
				found.departed[pod.UID] = unbound
			}
			found.lost = found.lost || departed || gone
			r.queue.Add(claim.UID)
		}
		r.mutex.Unlock()
	}
}

// ClaimChanged is told of claims that were written or deleted, after the informer's store has
// been updated. It returns at once.
func (r *Release) ClaimChanged(claim *resourceapi.ResourceClaim) {
	if r.Awaited(claim.UID) {
		r.queue.Add(claim.UID)
	}
}

// departed returns the consumers of a claim that the informer of pods has told to have ended. It
// forgets those that are not consumers any more once they are many: the informer of claims may be behind.
func (r *Release) departed(claim *resourceapi.ResourceClaim) map[types.UID]write.Unbound {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := r.claims[claim.UID]
	if found == nil {
		return nil
	}
	for pod := range found.departed {
		if len(found.departed) > resourceapi.ResourceClaimReservedForMaxSize && !write.IsReservedFor(claim, pod) {
			delete(found.departed, pod)
		}
	}
	return maps.Clone(found.departed)
}

// tellUsed tells preemptors that others use a claim on, if a pod that used it is gone since they were told: those have joined the
// claim, and what the preemptors have planned comes to nothing. Consumers that are gone, or about to be, do not count.
func (r *Release) tellUsed(claim *resourceapi.ResourceClaim) {
	if !slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		pod := r.known.Pod(claim.Namespace, consumer.Name)
		return dra.IsPodGroup(consumer) || samePod(pod, consumer.UID) && !isDone(pod) && pod.DeletionTimestamp == nil
	}) {
		return
	}
	r.mutex.Lock()
	var preemptors []types.UID
	if found := r.claims[claim.UID]; found != nil && found.lost {
		found.lost = false
		preemptors = sets.List(found.preemptors)
	}
	r.mutex.Unlock()
	for _, preemptor := range preemptors {
		r.waiting.PlanAgain(preemptor)
	}
}

// tellFreed returns a function that tells the present preemptors that a claim has no devices any more.
func (r *Release) tellFreed(claim types.UID) func() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var preemptors []types.UID
	if found := r.claims[claim]; found != nil {
		preemptors = sets.List(found.preemptors)
	}
	return func() {
		for _, preemptor := range preemptors {
			r.waiting.ClaimFreed(preemptor)
		}
	}
}

// ref returns which claim has that UID, if it is awaited.
func (r *Release) ref(uid types.UID) (ledger.ClaimRef, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if claim := r.claims[uid]; claim != nil {
		return claim.ref, true
	}
	return ledger.ClaimRef{}, false
}

// samePod reports whether it is the pod with that UID; nil is none.
func samePod(pod *v1.Pod, uid types.UID) bool { return pod != nil && pod.UID == uid }

// PodHappened handles an event about a pod that may have ended, or may not wait for anything any more. If the watch missed the
// deletion of a pod, the state in which it was deleted is not known.
func (r *Release) PodHappened(e informer.Event[v1.Pod]) {
	if before := e.Before; e.After == nil {
		r.podVanished(before)
		r.podChanged(before, !e.Missed)
		r.Await(before.UID)
		return
	}
	if podutil.IsPodTerminal(e.After) || e.After.DeletionTimestamp != nil {
		r.podChanged(e.After, false)
	}
	if e.After.Spec.NodeName != "" && (e.Before == nil || e.Before.Spec.NodeName == "") {
		r.Await(e.After.UID)
	}
}

// ClaimHappened handles an event about a claim that preemptors may wait for.
func (r *Release) ClaimHappened(e informer.Event[resourceapi.ResourceClaim]) {
	if e.Before != nil {
		r.claimSeen(e.Before.UID, e.After)
	}
	r.ClaimChanged(e.Latest())
}
