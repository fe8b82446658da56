package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/classic"
)

// classicMode is what the plugin needs for claims that controllers of their drivers
// allocate, see package classic. It is nil unless the server may have such claims: not if
// it has everything in v1.
type classicMode struct {
	negotiator *classic.Negotiator
	writer     *classic.Writer
}

// classicModeFor returns nil if there is nothing to do.
func (pl *Quartermaster) classicModeFor(ctx context.Context) (*classicMode, error) {
	api := apiversions.ClassicOf(pl.handle.ClientSet())
	if api == nil {
		return nil, nil
	}
	return pl.newClassicMode(ctx, api, func(namespace string) classic.ClaimClient {
		return pl.handle.ClientSet().ResourceV1().ResourceClaims(namespace)
	})
}

func (pl *Quartermaster) newClassicMode(ctx context.Context, api classic.API, claims func(namespace string) classic.ClaimClient) (*classicMode, error) {
	writer := &classic.Writer{Claims: claims}
	negotiator, err := classic.NewNegotiator(api, writer, pl.waiting.Exists, pl.contextChanged)
	if err != nil {
		return nil, err
	}
	go negotiator.Run(ctx)
	return &classicMode{negotiator: negotiator, writer: writer}, nil
}

// splitClassic takes the claims that controllers allocate out of those of the pod, and
// returns the others. The status says why no node will do for the moment.
func (pl *Quartermaster) splitClassic(c *cycle, pod *v1.Pod, claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, *fwk.Status) {
	if pl.classic == nil {
		return claims, nil
	}
	classes := pl.handle.SharedDRAManager().DeviceClasses()
	attempt := &classic.Attempt{Pod: pod.UID}
	var others []*resourceapi.ResourceClaim
	for _, claim := range claims {
		isClassic, err := classic.IsClassic(claim, classes)
		if err != nil {
			return nil, waiting("%v", err)
		}
		if !isClassic {
			others = append(others, claim)
			continue
		}
		classicClaim, err := classic.NewClaim(pod.UID, referenceTo(pod, claim.Name), claim, classes)
		if err != nil {
			return nil, waiting("%v", err)
		}
		attempt.Claims = append(attempt.Claims, classicClaim)
	}
	if len(attempt.Claims) == 0 {
		return claims, nil
	}
	if err := pl.classic.negotiator.CheckSync(); err != nil {
		return nil, failed(err)
	}
	attempt.Context = pl.classic.negotiator.Context(pod)
	c.classic = attempt
	return others, nil
}

// referenceTo returns the name under which the pod has a claim; the first one, if it has
// it under several.
func referenceTo(pod *v1.Pod, claim string) string {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == claim {
			return pod.Spec.ResourceClaims[i].Name
		}
	}
	return ""
}

// negotiate tells the controllers about the node that was chosen, as long as there are
// claims without allocation. The pod has to wait then.
func (pl *Quartermaster) negotiate(c *cycle, pod *v1.Pod, node string) *fwk.Status {
	if c.classic == nil {
		return nil
	}
	c.classic.Structured = c.task != nil
	spec, proceed := c.classic.Select(node)
	if proceed {
		pl.classic.negotiator.Withdraw(pod) // An earlier attempt may have wanted a claim to be freed.
		return nil
	}
	pl.classic.negotiator.Ask(pod, spec)
	pl.waker.Reject(c.pod)
	return fwk.NewStatus(fwk.Pending, c.classic.Waiting(spec))
}

// reserveClassic makes sure that the claims which controllers have allocated are reserved
// for the pod.
func (pl *Quartermaster) reserveClassic(ctx context.Context, c *cycle, pod *v1.Pod) error {
	if c.classic == nil {
		return nil
	}
	c.classicTouched = true
	for _, claim := range c.classic.Claims {
		if err := pl.classic.writer.Reserve(ctx, claim, pod); err != nil {
			return err
		}
	}
	return nil
}

// unreserveClassic undoes reserveClassic, unless the pod is bound. It is tried once: the
// next attempt needs the reservation anyway, and with the pod it ends.
func (pl *Quartermaster) unreserveClassic(ctx context.Context, c *cycle, pod *v1.Pod) {
	if !c.classicTouched {
		return
	}
	c.classicTouched = false
	bound, err := pl.isBound(ctx, pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The reservation of claims stays, because nobody knows whether the pod needs it", "pod", klog.KObj(pod))
		return
	}
	for i := len(c.classic.Claims) - 1; i >= 0 && !bound; i-- {
		if err := pl.classic.writer.Unreserve(ctx, c.classic.Claims[i], pod.UID); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot roll back the reservation of a claim; it ends with the pod", "pod", klog.KObj(pod))
		}
	}
}

// freeClassic asks the driver of a claim that keeps the pod from all nodes to free it. What
// has been allocated for another pod a moment ago is that pod's: two pods that cannot run
// on the same node would go on like that for ever.
func (pl *Quartermaster) freeClassic(c *cycle, pod *v1.Pod) *fwk.Status {
	if c.classic == nil {
		return nil
	}
	claim := c.classic.Freeable(func(claim *classic.Claim) bool { return pl.isForAnother(claim, pod) })
	if claim == nil {
		return nil
	}
	pl.classic.negotiator.Free(pod, claim)
	return fwk.NewStatus(fwk.Success, fmt.Sprintf("the driver of claim %s is asked to deallocate it", klog.KObj(claim.Object)))
}

// isForAnother reports whether a claim is allocated for the node that is selected for
// another pod. Of pods with the same node, the claim is the oldest one's: if each left it
// to the others, nobody would ever free it.
func (pl *Quartermaster) isForAnother(claim *classic.Claim, pod *v1.Pod) bool {
	users, err := pl.claims.Users(claim.Object.Namespace, claim.Object.Name)
	if err != nil {
		return false // There is no such index; New has made it.
	}
	ours := pl.isFor(claim, pod)
	for _, user := range users {
		if user.UID == pod.UID || user.Spec.NodeName != "" || user.DeletionTimestamp != nil {
			continue
		}
		if pl.isFor(claim, user) && !(ours && isOlderPod(pod, user)) {
			return true
		}
	}
	return false
}

// isFor reports whether a claim is allocated for the node that is selected for a pod.
func (pl *Quartermaster) isFor(claim *classic.Claim, pod *v1.Pod) bool {
	context := pl.classic.negotiator.Context(pod)
	if context == nil || context.Spec.SelectedNode == "" {
		return false
	}
	node, err := pl.nodes.Get(context.Spec.SelectedNode)
	return err == nil && claim.AllocatedFor(node)
}

// isOlderPod is a total order of pods.
func isOlderPod(a, b *v1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// contextChanged wakes the pods that a change of a context may help: its own, and if that
// has ended before it was bound, those that left its claims to it.
func (pl *Quartermaster) contextChanged(before, after *apiversions.PodSchedulingContext) {
	if after == nil {
		pl.contextEnded(before)
		return
	}
	owner := metav1.GetControllerOfNoCopy(after)
	if owner == nil {
		return
	}
	entry := pl.waiting.Get(owner.UID)
	if entry == nil {
		return
	}
	pod := entry.Latest()
	if pod == nil {
		return // Its first attempt is about to begin, and will find the context as it is.
	}
	pending, known := pl.pendingReferences(pod)
	if !known {
		return // The claim that is missing wakes the pod.
	}
	switch helps, atOnce := classic.Progress(before, after, pending); {
	case helps && atOnce:
		pl.waker.WakeAtOnce(entry)
	case helps:
		pl.waker.Wake(entry)
	}
}

// contextEnded wakes pods of the namespace unless the pod of the context was bound, which is
// how most contexts end.
func (pl *Quartermaster) contextEnded(context *apiversions.PodSchedulingContext) {
	pod := pl.claims.Pod(context.Namespace, context.Name)
	if pod != nil && metav1.IsControlledBy(context, pod) && pod.Spec.NodeName != "" {
		return
	}
	for _, entry := range pl.waiting.All() {
		if waiting := entry.Latest(); waiting != nil && waiting.Namespace == context.Namespace && len(waiting.Spec.ResourceClaims) > 0 {
			pl.waker.Wake(entry)
		}
	}
}

// pendingReferences are the names under which the pod has claims that controllers have not
// allocated yet. It is not known if not all claims are there.
func (pl *Quartermaster) pendingReferences(pod *v1.Pod) (pending []string, known bool) {
	claims, err := pl.claims.Of(pod)
	if err != nil {
		return nil, false
	}
	for _, claim := range claims {
		isClassic, err := classic.IsClassic(claim, pl.handle.SharedDRAManager().DeviceClasses())
		if err != nil {
			return nil, false
		}
		if isClassic && claim.Status.Allocation == nil {
			pending = append(pending, referenceTo(pod, claim.Name))
		}
	}
	return pending, true
}

// dependsOnController reports whether any of the claims may be one that a controller has
// to allocate yet. Which nodes would do for it is not known here.
func (pl *Quartermaster) dependsOnController(claims []*resourceapi.ResourceClaim) bool {
	if pl.classic == nil {
		return false
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil && apiversions.AlphaClaimOf(claim).Allocator != apiversions.ByScheduler {
			return true
		}
	}
	return false
}

// dependsOnAlphaClass reports whether a change of a class matters to a claim for reasons
// that v1 does not have.
func (pl *Quartermaster) dependsOnAlphaClass(pod *v1.Pod, class string) bool {
	if pl.classic == nil {
		return false
	}
	claims, err := pl.claims.Of(pod)
	if err != nil {
		return false
	}
	for _, claim := range claims {
		if classic.DependsOn(claim, class) {
			return true
		}
	}
	return false
}

// PreScore notes for which nodes controllers are to be asked: all that would do otherwise.
func (pl *Quartermaster) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if pl.classic == nil {
		return nil
	}
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil || c.classic == nil {
		return nil
	}
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	c.classic.SetFeasible(names)
	return nil
}
