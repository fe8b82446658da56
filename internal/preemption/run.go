package preemption

import (
	"context"
	"errors"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Run releases claims until the context ends.
func (r *Release) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	running.Go(func() {
		for r.nextQuestion(ctx) {
		}
	})
	<-ctx.Done()
	r.queue.ShutDown()
	r.questions.ShutDown()
	running.Wait()
}

// next looks at the next claim; it returns false when there will be none.
func (r *Release) next(ctx context.Context) bool {
	uid, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(uid)
	if r.again(ctx, uid) && ctx.Err() == nil {
		r.queue.AddRateLimited(uid)
	} else {
		r.queue.Forget(uid)
	}
	return true
}

// again looks at a claim, and releases it if nobody uses it. It returns true if it has to be
// looked at again although nothing may be told of it.
func (r *Release) again(ctx context.Context, uid types.UID) bool {
	ref, found := r.ref(uid)
	if !found {
		return false
	}
	claim := r.known.Claim(ref.Namespace, ref.Name)
	if claim == nil || claim.UID != uid {
		r.drop(uid)
		return false
	}
	if claim.Status.Allocation == nil {
		r.tellFreed(uid)()
		// What the informer does not have may be gone: the scheduler's manager of claims, which has
		// it still, may be told of that later than this package.
		return !r.known.Listed(ref.Namespace, ref.Name)
	}
	state, gone, end, err := r.usage(ctx, claim, r.departed(claim))
	defer end()
	if err != nil {
		logFailure(ctx, claim, err)
		return true
	}
	if state != Abandoned {
		r.tellUsed(claim)
		return state == Unheard
	}
	return r.release(ctx, claim, gone)
}

// release deallocates a claim whose consumers are all gone. It returns true if that has to be
// tried again.
func (r *Release) release(ctx context.Context, claim *resourceapi.ResourceClaim, gone []write.Unbound) bool {
	left, cleared, err := r.writer.ReleaseAbandoned(write.Because(ctx, r.cause(claim.UID)), claim, gone)
	if cleared {
		released.Inc()
	}
	if err != nil {
		logFailure(ctx, claim, err)
		return true
	}
	klog.FromContext(ctx).V(3).Info("Released a claim that a preemptor waits for", "claim", klog.KObj(claim), "by", by(cleared))
	r.observer.Observe(ctx, claim, left)
	if left == nil || left.DeletionTimestamp != nil && len(left.Finalizers) == 0 {
		r.drop(claim.UID)
	}
	return false
}

// by names the author of the write that removed the allocation, as far as it is known.
func by(cleared bool) string {
	if cleared {
		return "this scheduler"
	}
	return "somebody else, or a write whose answer got lost"
}

// logFailure tells why a claim is not released yet. That it has changed since it was looked at is
// nothing unusual.
func logFailure(ctx context.Context, claim *resourceapi.ResourceClaim, err error) {
	logger := klog.FromContext(ctx).WithValues("claim", klog.KObj(claim))
	switch {
	case ctx.Err() != nil: // The scheduler ends.
	case errors.Is(err, write.ErrInUse) || errors.Is(err, write.ErrBound) || errors.Is(err, write.ErrAllocatedElsewhere):
		logger.V(3).Info("A claim that a preemptor waits for is in use again; looking at it again", "reason", err)
	default:
		logger.Error(err, "Cannot release a claim that a preemptor waits for; trying again unless the resourceclaim controller is first")
	}
}

const metricsSubsystem = "quartermaster"

var released = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
	Subsystem: metricsSubsystem, Name: "released_claims_total", StabilityLevel: k8smetrics.ALPHA,
	Help: "Claims that the scheduler has deallocated because a preemptor waited for their devices and all of their consumers were gone, before the resourceclaim controller did.",
})

// RegisterMetrics makes the metrics known, so that their series exist before the first event.
func RegisterMetrics(register func(...k8smetrics.Registerable)) { register(released) }
