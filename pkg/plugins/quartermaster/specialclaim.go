package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// specialClaim marks a claim as the one for the pod's extended resources. Nobody but that
// pod uses it, and it goes with a failed attempt.
type specialClaim struct {
	// created is false as long as the claim is only in memory, under a UID that it will not
	// have. It may exist nevertheless, if nobody knows what became of the request.
	created bool
}

// createSpecial creates the claim for extended resources, if it is one and does not exist
// yet. From then on, what is in flight for it is so under its real UID.
func (pl *Quartermaster) createSpecial(ctx context.Context, pod *v1.Pod, podClaim *podClaim) error {
	if podClaim.special == nil || podClaim.special.created {
		return nil
	}
	created, err := extendedresource.Create(ctx, pl.writer, pod, podClaim.claim)
	if created != nil {
		pl.state.Ledger.Rename(podClaim.claim.UID, ledger.RefTo(created))
		podClaim.claim, podClaim.special.created = created, true
	}
	return err
}

// undoSpecial deletes the claim for extended resources of a pod that is not bound, as far
// as it exists. It returns the claim if somebody else keeps it from going, else nil.
func (pl *Quartermaster) undoSpecial(ctx context.Context, pod *v1.Pod, podClaim *podClaim) (*resourceapi.ResourceClaim, error) {
	if !podClaim.special.created {
		return extendedresource.RemoveUncreated(ctx, pl.writer, pod, podClaim.claim)
	}
	return pl.writer.Remove(ctx, podClaim.claim, pod.UID)
}

// settleSpecial finds out what became of the claim of a pod that is bound all the same.
func (pl *Quartermaster) settleSpecial(ctx context.Context, podClaim *podClaim) (*resourceapi.ResourceClaim, error) {
	if !podClaim.special.created {
		return nil, nil // If the pod is bound with it, then not because of this attempt.
	}
	return pl.writer.Settle(ctx, podClaim.claim)
}

// removeLeftOver deletes what earlier attempts have left of the pod if it fits no node with
// that: other devices, or what the node itself offers, may do. It returns whether there
// was anything. As long as that is not known of some node, it stays.
func (pl *Quartermaster) removeLeftOver(ctx context.Context, c *cycle, pod *v1.Pod) (bool, error) {
	if c.extended == nil {
		return false, nil
	}
	claims := c.extended.Obsolete()
	if c.leftOver != nil && !c.undecided.Load() {
		claims = append([]*resourceapi.ResourceClaim{c.leftOver.claim}, claims...)
	}
	if len(claims) == 0 {
		return false, nil
	}
	bound, err := pl.isBound(ctx, pod)
	if err != nil || bound {
		return false, err
	}
	for _, claim := range claims {
		if pl.takeover.FoundReserved(claim, pod.UID, pod) {
			return false, nil
		}
		left, err := pl.writer.Remove(ctx, claim, pod.UID)
		if err != nil {
			return false, fmt.Errorf("delete claim %s, which an earlier attempt made for the pod's extended resources: %w", klog.KObj(claim), err)
		}
		if left != nil {
			pl.observe(ctx, left)
		}
	}
	return true, nil
}

// signalInFlight tells the scheduler's manager of claims what a claim is about to get.
func (pl *Quartermaster) signalInFlight(podClaim *podClaim) {
	created := podClaim.special == nil || podClaim.special.created
	if told := pl.scoring.InFlight(podClaim.claim, podClaim.planned, created); told != "" {
		podClaim.signalled = told
	}
}

// signalWritten tells it that the claim was written.
func (pl *Quartermaster) signalWritten(podClaim *podClaim) {
	pl.scoring.Written(podClaim.signalled, podClaim.claim)
	podClaim.signalled = ""
}

// signalGivenUp tells it that nothing will come of what was in flight.
func (pl *Quartermaster) signalGivenUp(podClaim *podClaim) {
	pl.scoring.GivenUp(podClaim.signalled)
	podClaim.signalled = ""
}
