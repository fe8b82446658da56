package quartermaster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
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
	created, err := pl.writer.Create(ctx, podClaim.claim)
	if err != nil {
		schedulermetrics.ResourceClaimCreatesTotal.WithLabelValues("failure", "false", "", "Pod").Inc()
		return fmt.Errorf("create the claim for the pod's extended resources: %w", err)
	}
	schedulermetrics.ResourceClaimCreatesTotal.WithLabelValues("success", "false", "", "Pod").Inc()
	if ownerOfExtendedClaim(created) != pod.UID {
		return fmt.Errorf("the claim for the pod's extended resources would be %s, but there is one of that name already, "+
			"which does not belong to the pod; delete it", klog.KObj(created))
	}
	pl.state.ledger.Rename(podClaim.claim.UID, ledger.RefTo(created))
	wanted := podClaim.claim
	podClaim.claim, podClaim.special.created = created, true
	if created.DeletionTimestamp != nil || !asksForSame(created, wanted) {
		return fmt.Errorf("claim %s, which an earlier attempt made for the pod's extended resources, is in the way; trying again without it", klog.KObj(created))
	}
	return nil
}

// undoSpecial deletes the claim for extended resources of a pod that is not bound, as far
// as it exists. It returns the claim if somebody else keeps it from going, else nil.
func (pl *Quartermaster) undoSpecial(ctx context.Context, pod *v1.Pod, podClaim *podClaim) (*resourceapi.ResourceClaim, error) {
	claim := podClaim.claim
	if !podClaim.special.created {
		var err error
		if claim, err = pl.writer.Find(ctx, claim.Namespace, claim.Name); err != nil {
			return nil, err
		}
		if claim == nil || ownerOfExtendedClaim(claim) != pod.UID {
			return nil, nil
		}
	}
	return pl.writer.Remove(ctx, claim, pod.UID)
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
// was anything.
func (pl *Quartermaster) removeLeftOver(ctx context.Context, c *cycle, pod *v1.Pod) (bool, error) {
	if c.extended == nil {
		return false, nil
	}
	claims := c.extended.obsolete
	if c.extended.found != nil {
		claims = append([]*resourceapi.ResourceClaim{c.extended.found.claim}, claims...)
	}
	if len(claims) == 0 {
		return false, nil
	}
	bound, err := pl.isBound(ctx, pod)
	if err != nil || bound {
		return false, err
	}
	for _, claim := range claims {
		if pl.takeover.foundReserved(claim, pod.UID, pod) {
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

// recordExtended writes into the pod's status which claim serves which of its extended
// resources. The kubelet goes by that. It is the last thing that is written before the
// pod is bound, because the API server does not let it be taken back.
func (pl *Quartermaster) recordExtended(ctx context.Context, c *cycle, pod *v1.Pod) error {
	if c.extended == nil || c.extended.chosen == nil || c.extended.chosen.claim == nil {
		return nil
	}
	for _, podClaim := range c.claims {
		if podClaim.special == nil {
			continue
		}
		status := &v1.PodExtendedResourceClaimStatus{RequestMappings: c.extended.chosen.mappings, ResourceClaimName: podClaim.claim.Name}
		if err := pl.patchExtended(ctx, pod, status); err != nil {
			return fmt.Errorf("record claim %s for the pod's extended resources in its status: %w", klog.KObj(podClaim.claim), err)
		}
	}
	return nil
}

// patchExtended writes the status whatever it was before: what is known of the pod may be
// older.
func (pl *Quartermaster) patchExtended(ctx context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return err
	}
	var answer *v1.Pod
	if err := retry.OnError(retry.DefaultBackoff, mayGoAway, func() (err error) {
		answer, err = pl.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: claimwriter.FieldManager}, "status")
		return err
	}); err != nil {
		return err
	}
	return checkRecorded(answer, status)
}

// mayGoAway reports whether a request that changes nothing when it is repeated had better
// be sent again.
func mayGoAway(err error) bool {
	return claimwriter.IsTransient(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
