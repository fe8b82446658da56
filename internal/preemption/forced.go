package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// A claim of a PodGroup is reserved for the group, so that nothing in it names a pod which was deleted without
// waiting for its node and may still run. That is remembered here until the claim is deallocated: the controller
// does that when the group is gone. A pod that was seen terminating before it went is taken to have ended.

// vanished describes the pods that went while a claim of their PodGroup was allocated.
type vanished struct {
	// forced is set if one was deleted without waiting for its node.
	forced bool
	// asked holds the pods about which the API server is being asked: the informer leaves out pods that have ended.
	asked sets.Set[types.UID]
}

// A question identifies a pod about which the API server must be asked.
type departure struct {
	namespace, name string
	uid             types.UID
}

// podVanished handles pods that were deleted or replaced, or have ended; pod is the last state.
func (r *Release) podVanished(pod *v1.Pod) {
	if dra.PodGroupName(pod) == "" || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || isDone(pod) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, name := range claims.NamesOf(pod) {
		claim := r.known.Claim(pod.Namespace, name)
		if claim == nil || !isOfGroup(claim) {
			continue
		}
		found := r.vanished[claim.UID]
		if found == nil {
			found = &vanished{asked: sets.New[types.UID]()}
			r.vanished[claim.UID] = found
		}
		found.asked.Insert(pod.UID)
		r.questions.Add(departure{pod.Namespace, pod.Name, pod.UID})
	}
}

// mayRun reports whether a pod that is gone may still run with a claim of its PodGroup.
func (r *Release) mayRun(claim types.UID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := r.vanished[claim]
	return found != nil && (found.forced || found.asked.Len() > 0)
}

// nextQuestion asks about the next pod; it returns false when there will be none.
func (r *Release) nextQuestion(ctx context.Context) bool {
	q, shutdown := r.questions.Get()
	if shutdown {
		return false
	}
	defer r.questions.Done(q)
	asking, cancel := context.WithTimeout(ctx, write.UndoTimeout)
	pod, err := r.writer.Pod(asking, q.namespace, q.name)
	cancel()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot find out whether a missing pod has ended; trying again", "pod", klog.KRef(q.namespace, q.name))
		if ctx.Err() == nil {
			r.questions.AddRateLimited(q)
		}
		return true
	}
	r.questions.Forget(q)
	r.answer(q, !samePod(pod, q.uid))
	return true
}

// answer takes note of whether a pod was deleted without waiting for its node. If it is there, it has ended, or the
// informer tells of it once more.
func (r *Release) answer(q departure, forced bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, found := range r.vanished {
		if !found.asked.Has(q.uid) {
			continue
		}
		found.asked.Delete(q.uid)
		found.forced = found.forced || forced
		if !found.forced && found.asked.Len() == 0 {
			delete(r.vanished, uid)
		}
		if r.claims[uid] != nil {
			r.queue.Add(uid)
		}
	}
}

// claimSeen forgets the pods of a claim that is not allocated for its PodGroup any more; it is gone if there is none.
func (r *Release) claimSeen(uid types.UID, claim *resourceapi.ResourceClaim) {
	if claim != nil && claim.UID == uid && claim.Status.Allocation != nil && isOfGroup(claim) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.vanished, uid)
}

// isOfGroup reports whether a claim is reserved for a PodGroup.
func isOfGroup(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, dra.IsPodGroup)
}
