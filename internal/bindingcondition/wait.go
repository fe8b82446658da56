package bindingcondition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
)

// Cluster is what is known of the objects that a wait is about. All of it is in memory.
type Cluster interface {
	// Pod returns the latest known state of a pod, nil if there is none of that name.
	Pod(namespace, name string) *v1.Pod
	// Claim returns the latest known state of a claim, nil if there is none of that name. It
	// may have been written a moment ago and not have been seen by the informer.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// Listed reports whether the informer has a claim of that name.
	Listed(namespace, name string) bool
	// Allocated reports whether the server is known to have the claim with an allocation.
	Allocated(claim types.UID) bool
	// Reserved reports whether a claim is reserved for the pod, or for its PodGroup.
	Reserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool
}

// Waiter has the pods of one profile of the scheduler wait for their devices.
type Waiter struct {
	Cluster Cluster
	// Changed is told of each change of a claim, and of pods that end.
	Changed Watchers
	// Timeout is how long a device may take after it was allocated (bindingTimeout).
	Timeout time.Duration
	// Stopping ends when the scheduler does.
	Stopping context.Context
	// Recorder tells the users of pods what these wait for.
	Recorder events.EventRecorderLogger
	// Profile is the name of the profile, for the scheduler's metrics.
	Profile string
}

// Outcome is how a wait has ended.
type Outcome struct {
	// Claims are those of the pod in their latest state, in the same order.
	Claims []*resourceapi.ResourceClaim
	// Waited is set if a device was not ready from the start.
	Waited bool
	// Broken are the claims that fail or take too long, by their positions: the last pod to
	// release one clears the allocation, and with it what drivers have reported.
	Broken []int
}

// Await waits until drivers have reported that the devices of all claims are ready, which may
// take minutes. The claims are allocated and reserved for the pod on the node, for good, as the
// server has confirmed. Pods that share a claim wait side by side, each with its own reservation.
//
// The error says why that is not to be waited for any longer: ErrFailed, ErrTimeout, the end
// of the context or of the scheduler, or that the pod or its hold on a claim is gone.
func (w *Waiter) Await(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (Outcome, error) {
	if !slices.ContainsFunc(claims, Has) {
		return Outcome{Claims: claims}, nil
	}
	one := &wait{Waiter: w, pod: pod, node: node, begin: time.Now(), outcome: Outcome{Claims: slices.Clone(claims)}}
	err := one.run(ctx)
	observe(w.Profile, one.outcome.Claims, time.Since(one.begin), err)
	return one.outcome, err
}

// wait is one pod that waits for its devices.
type wait struct {
	*Waiter
	pod     *v1.Pod
	node    string
	begin   time.Time
	outcome Outcome
}

// run returns nil when all claims are ready, or why that is not to be waited for.
func (w *wait) run(ctx context.Context) error {
	objects := []types.UID{w.pod.UID}
	for _, claim := range w.outcome.Claims {
		objects = append(objects, claim.UID)
	}
	changed, leave := w.Changed.watch(objects...)
	defer leave()
	for {
		deadline, err := w.look()
		if err != nil || deadline.IsZero() {
			return err
		}
		w.announce(ctx)
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		case <-w.Stopping.Done():
		}
		timer.Stop()
		if err := errors.Join(context.Cause(ctx), context.Cause(w.Stopping)); err != nil {
			return fmt.Errorf("waiting for the binding conditions of devices on node %s: %w", w.node, err)
		}
	}
}

// announce says that the pod waits, once.
func (w *wait) announce(ctx context.Context) {
	if w.outcome.Waited {
		return
	}
	w.outcome.Waited = true
	var missing []readiness
	for _, claim := range w.outcome.Claims {
		missing = append(missing, readinessOf(claim)...)
	}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Waiting for binding conditions", "pod", klog.KObj(w.pod), "node", w.node, "pending", describePending(missing))
	w.Recorder.WithLogger(logger).Eventf(w.pod, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		"devices on node %s are not ready: %s", w.node, describePending(missing))
}

// look finds out how things are. The deadline is when to look again at the latest; it is
// zero if all claims are ready. All claims are looked at, so that all that are broken get
// marked; the first error is returned.
func (w *wait) look() (deadline time.Time, err error) {
	if err := w.podIsGone(); err != nil {
		return time.Time{}, err
	}
	for i := range w.outcome.Claims {
		limit, problem := w.lookAt(i)
		switch {
		case problem != nil && err == nil:
			err = problem
		case !limit.IsZero() && (deadline.IsZero() || limit.Before(deadline)):
			deadline = limit
		}
	}
	return deadline, err
}

// lookAt is look for one claim, by its position.
func (w *wait) lookAt(i int) (deadline time.Time, err error) {
	if err := w.refresh(i); err != nil {
		return time.Time{}, err
	}
	claim := w.outcome.Claims[i]
	devices := readinessOf(claim)
	if err := failure(claim, devices); err != nil {
		w.outcome.Broken = append(w.outcome.Broken, i)
		return time.Time{}, err
	}
	if isReady(devices) {
		return time.Time{}, nil
	}
	deadline = w.deadline(claim)
	if !time.Now().Before(deadline) {
		w.outcome.Broken = append(w.outcome.Broken, i)
		return time.Time{}, timedOut(claim, devices, w.Timeout)
	}
	if soon := time.Now().Add(UnlistedInterval); soon.Before(deadline) && !w.Cluster.Listed(claim.Namespace, claim.Name) {
		return soon, nil
	}
	return deadline, nil
}

// UnlistedInterval is when to look again at a claim that the informer does not have: not yet,
// or not any more. The scheduler's manager of claims may hear of a deletion after us, and
// nothing would tell when it has.
const UnlistedInterval = time.Second

// deadline is the end of the timeout. It began when the claim was allocated, which may have
// been long ago, for another pod or by another process. Its clock may have been wrong, and
// the time need not be known; nobody waits for longer than the timeout.
func (w *wait) deadline(claim *resourceapi.ResourceClaim) time.Time {
	deadline := w.begin.Add(w.Timeout)
	if allocated := claim.Status.Allocation.AllocationTimestamp; allocated != nil && allocated.Add(w.Timeout).Before(deadline) {
		return allocated.Add(w.Timeout)
	}
	return deadline
}

// refresh takes over the latest state of a claim. It fails if that is not what was
// confirmed any more. That is from the server's answer, so a claim that was just made is
// perhaps not known elsewhere yet.
func (w *wait) refresh(i int) error {
	confirmed := w.outcome.Claims[i]
	latest := w.Cluster.Claim(confirmed.Namespace, confirmed.Name)
	problem := ""
	switch {
	case latest == nil && w.Cluster.Allocated(confirmed.UID) || isOlder(latest, confirmed):
		return nil
	case latest == nil || latest.UID != confirmed.UID:
		problem = "it was deleted"
	case !amount.DeepEqual(latest.Status.Allocation, confirmed.Status.Allocation):
		problem = "its allocation was removed"
	case !w.Cluster.Reserved(latest, w.pod):
		problem = "it is not reserved for the pod any more"
	}
	if problem != "" {
		return fmt.Errorf("while the pod waited for devices of claim %s to get ready: %s; trying again", klog.KObj(confirmed), problem)
	}
	w.outcome.Claims[i] = latest
	return nil
}

// isOlder reports whether a state is known to be from before another one.
func isOlder(state, other *resourceapi.ResourceClaim) bool {
	return state != nil && objectversion.Newer(other.ResourceVersion, state.ResourceVersion)
}

// podIsGone fails if nobody wants the pod any more.
func (w *wait) podIsGone() error {
	latest := w.Cluster.Pod(w.pod.Namespace, w.pod.Name)
	if latest == nil || latest.UID != w.pod.UID || latest.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s was deleted while it waited for its devices to get ready", klog.KObj(w.pod))
	}
	return nil
}
