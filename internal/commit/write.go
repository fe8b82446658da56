package commit

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// write allocates the claim if it has a plan, and reserves it for the pod or its group. It creates the
// claim first if necessary.
func (r *run) write(ctx context.Context, claim *Claim) error {
	if claim.Origin == ToMake {
		if err := r.make(ctx, claim); err != nil {
			return err
		}
	}
	before, consumer := r.upToDate(claim), claim.Consumer(r.pod)
	if before.Status.Allocation == nil {
		if err := r.stillPublished(claim); err != nil {
			return err
		}
	}
	ctx = write.Because(ctx, write.Cause{Pod: r.pod, Node: r.node, Why: "for " + nameOf(consumer)})
	written, err := r.Writer.Bind(ctx, before, claim.Plan(), consumer)
	if err != nil {
		if write.Denied(err) {
			r.denied = &denial{claim.Object.UID, claim.Plan()}
		}
		return explainBind(claim, err)
	}
	r.Takeover.Made(before, written, consumer.UID)
	r.Observe(ctx, before, written)
	claim.Object = written
	return nil
}

// stillPublished returns an error if a device that is planned for a claim is no longer published: its
// driver has withdrawn it, or is gone together with its slices (kubernetes #141912). A pod that is
// bound to it would not start. While the pool is being updated, this is unknown, and there is no error.
func (r *run) stillPublished(claim *Claim) error {
	plan := claim.Plan()
	if plan == nil {
		return nil
	}
	for i := range plan.Devices.Results {
		result := &plan.Devices.Results[i]
		pool := r.State.Pool(ledger.PoolOf(result))
		if pool == nil || pool.State == inventory.Complete && pool.Device(result.Device) == nil {
			return fmt.Errorf("claim %s was to get device %s/%s but its driver does not publish that any more; looking for other devices",
				klog.KObj(claim.Object), ledger.PoolOf(result), result.Device)
		}
	}
	return nil
}

// make creates a claim. From then on, its plan is in flight under the claim's real UID.
func (r *run) make(ctx context.Context, claim *Claim) error {
	created, err := extended.Create(ctx, r.Writer, r.pod, claim.Object)
	if created != nil {
		r.State.Ledger.Rename(claim.Object.UID, ledger.RefTo(created))
		claim.Object, claim.Origin = created, Made
	}
	return err
}

// upToDate returns the latest known state of the claim. Since this pod was filtered, other pods that share
// the claim may have been reserved, or may have written the plan that is for all of them; the server does
// not refuse a write that is based on the latest state. If the claim has another allocation than the one for
// which the node was chosen, it is not the same claim any more, and the state that the pod saw is returned.
func (r *Runner) upToDate(claim *Claim) *resourceapi.ResourceClaim {
	seen := claim.Object
	latest := r.Known.Claim(seen.Namespace, seen.Name)
	if latest == nil || latest.UID != seen.UID {
		return seen
	}
	written := claim.Plan() != nil && write.SameAllocation(latest.Status.Allocation, claim.Plan())
	if !written && !quantity.DeepEqual(latest.Status.Allocation, seen.Status.Allocation) {
		return seen
	}
	return latest
}

// nameOf returns a readable name of a consumer.
func nameOf(consumer resourceapi.ResourceClaimConsumerReference) string {
	switch consumer.Resource {
	case "pods":
		return "pod " + consumer.Name
	case "podgroups":
		return "PodGroup " + consumer.Name
	default:
		return consumer.Resource + " " + consumer.Name
	}
}

// explainBind adds to an error what happens next.
func explainBind(claim *Claim, err error) error {
	if errors.Is(err, write.ErrAllocatedElsewhere) || errors.Is(err, write.ErrDeallocated) {
		return fmt.Errorf("claim %s changed while the pod was being scheduled; trying again: %w", klog.KObj(claim.Object), err)
	}
	return fmt.Errorf("reserve claim %s for the pod: %w", klog.KObj(claim.Object), err)
}
