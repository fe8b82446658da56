package commit

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// settlePlan waits before the pod's claims are written while other schedulers are busy with
// allocations. It fails if a conflicting claim was allocated meanwhile. A claim that is not written
// need not be released, which matters to others: when the first of two claims gives up a device, the
// default scheduler considers the device free. If there is nothing to wait for, it does not check the
// plan: the watch may be behind the informer from which the plan was made.
func (r *run) settlePlan(ctx context.Context) error {
	var conflict *allocationlog.Conflict
	waited, err := r.Foreign.Begin(r.pod, r.allocations()...).BeforeWrite(ctx, func() bool {
		r.place.Leave()
		conflict = r.planLost()
		return conflict != nil
	})
	if waited > 0 {
		observeWait(stagePreWriteSettle, waited)
	}
	if err != nil || conflict == nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Not allocating a claim because a conflicting claim was allocated first", "conflict", conflict.String())
	return fmt.Errorf("%w: %s; looking for other devices", ErrConflict, conflict)
}

// settle waits once, after the pod's claims were written, for late writes of other schedulers: they may
// have decided before they could know of the claims. Such a write takes the settle time at most, or as
// long as these schedulers are busy. A claim that has lost by then stays lost.
func (r *run) settle(ctx context.Context) (protocol.Event, error) {
	if r.Foreign.Settles() {
		settling := r.Foreign.Begin(r.pod, r.allocations()...)
		for _, lost := range r.lost {
			settling.Yield(lost.to.Other.Namespace)
		}
		if settling.Contested() {
			r.place.Leave()
			waited, err := settling.AfterWrite(ctx, func() { r.lost = addLost(r.lost, r.losing(true)) })
			observeWait(stagePostWriteSettle, waited)
			if err != nil {
				return then(protocol.Failure, err)
			}
		}
	}
	return r.lastLook(protocol.Settled)
}

// planLost returns the conflict that prevents a claim from being written as planned, nil if there is none.
func (r *run) planLost() *allocationlog.Conflict {
	for _, claim := range r.claims {
		if claim.Plan() == nil {
			continue
		}
		planned := claim.Object.DeepCopy()
		planned.Status.Allocation = claim.Plan()
		if conflict := r.State.Order.CheckPlan(planned); conflict != nil {
			return conflict
		}
	}
	return nil
}

// allocations returns the planned allocation of each of the pod's claims, or the present one if there
// is no plan.
func (r *run) allocations() []*resourceapi.AllocationResult {
	allocations := make([]*resourceapi.AllocationResult, len(r.claims))
	for i, claim := range r.claims {
		if allocations[i] = claim.Plan(); allocations[i] == nil {
			allocations[i] = claim.Object.Status.Allocation
		}
	}
	return allocations
}
