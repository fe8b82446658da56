package binding

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

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Cluster reads the pods and claims of a wait, from memory only.
type Cluster interface {
	// Pod returns the latest known state of a pod, nil if it does not exist.
	Pod(namespace, name string) *v1.Pod
	// Claim returns the latest known state of a claim, nil if it does not exist. It may include a recent write that the
	// informer has not seen.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// Listed reports whether the informer has a claim of that name.
	Listed(namespace, name string) bool
	// Allocated reports whether the server is known to have an allocation for the claim.
	Allocated(claim types.UID) bool
	// Reserved reports whether a claim is reserved for the pod, or for its PodGroup.
	Reserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool
}

// A Waiter lets pods of one profile wait for their devices.
type Waiter struct {
	Cluster Cluster
	// Changed receives each change of a claim, and the end of pods.
	Changed Watchers
	// Timeout limits the time that a device may take after its allocation (bindingTimeout).
	Timeout time.Duration
	// Stopping ends when the scheduler stops.
	Stopping context.Context
	// Recorder writes events about what pods wait for.
	Recorder events.EventRecorderLogger
	// Profile is the name of the profile, for the scheduler's metrics.
	Profile string

	seen sightings
}

// Outcome is the result of a wait.
type Outcome struct {
	// Claims are the pod's claims in their latest state, in the same order.
	Claims []*resourceapi.ResourceClaim
	// Waited is set if a device was not ready from the start.
	Waited bool
	// Broken are the positions of claims that fail or take too long. The last pod to release such a claim clears the
	// allocation, and with it the conditions that drivers reported.
	Broken []int
}

// Await waits until drivers have reported that the devices of all claims are ready, which may take minutes. The server
// has confirmed that the claims are allocated, and reserved for the pod. Pods that share a claim wait concurrently,
// each with its own reservation.
//
// The error says why the wait ended early: ErrFailed, ErrTimeout, the end of the context or of the scheduler, or that
// the pod, its claim or the claim's reservation is gone.
func (w *Waiter) Await(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (Outcome, error) {
	if !slices.ContainsFunc(claims, Has) {
		return Outcome{Claims: claims}, nil
	}
	one := &wait{Waiter: w, pod: pod, node: node, begin: time.Now(), outcome: Outcome{Claims: slices.Clone(claims)}}
	err := one.run(ctx)
	observe(w.Profile, one.outcome.Claims, time.Since(one.begin), err)
	return one.outcome, err
}

// A wait is one pod's wait for its devices.
type wait struct {
	*Waiter
	pod     *v1.Pod
	node    string
	begin   time.Time
	outcome Outcome
}

// run returns nil when all claims are ready, or why the wait ended early.
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

// announce logs that the pod waits and writes an event, once.
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

// look checks the pod and its claims. deadline is the time of the next check at the latest, zero if all claims are
// ready. look checks all claims, so that all broken ones are marked, and returns the first error.
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

// lookAt checks the claim at a position.
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
	if isOver(deadline) {
		w.outcome.Broken = append(w.outcome.Broken, i)
		return time.Time{}, timedOut(claim, devices, w.Timeout)
	}
	if soon := time.Now().Add(UnlistedInterval); soon.Before(deadline) && !w.Cluster.Listed(claim.Namespace, claim.Name) {
		return soon, nil
	}
	return deadline, nil
}

// UnlistedInterval is the interval between checks of a claim that the informer does not have, not yet or not any more.
// The scheduler's claim manager may learn of a deletion after the informer's event, and no event follows.
const UnlistedInterval = time.Second

// deadline returns the end of the timeout. The timeout began with the claim's allocation, which may have been long ago,
// for another pod or by another process. That process's clock may have been wrong, and the time may be missing; so the
// wait never takes longer than the timeout.
func (w *wait) deadline(claim *resourceapi.ResourceClaim) time.Time {
	deadline := w.begin.Add(w.Timeout)
	if ends := w.expiry(claim); ends.Before(deadline) {
		return ends
	}
	return deadline
}

// refresh replaces a claim by its latest state. It fails if the claim is gone, or has lost the confirmed allocation or
// reservation. The confirmed state is the server's answer, so other sources may not know a new claim yet.
func (w *wait) refresh(i int) error {
	confirmed := w.outcome.Claims[i]
	latest := w.Cluster.Claim(confirmed.Namespace, confirmed.Name)
	problem := ""
	switch {
	case latest == nil && w.Cluster.Allocated(confirmed.UID) || isOlder(latest, confirmed):
		return nil
	case latest == nil || latest.UID != confirmed.UID:
		problem = "it was deleted"
	case !quantity.DeepEqual(latest.Status.Allocation, confirmed.Status.Allocation):
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

// isOlder reports whether a state is known to be older than another one.
func isOlder(state, other *resourceapi.ResourceClaim) bool {
	return state != nil && informer.Newer(other.ResourceVersion, state.ResourceVersion)
}

// podIsGone returns an error if the pod is deleted or being deleted.
func (w *wait) podIsGone() error {
	latest := w.Cluster.Pod(w.pod.Namespace, w.pod.Name)
	if latest == nil || latest.UID != w.pod.UID || latest.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s was deleted while it waited for its devices to get ready", klog.KObj(w.pod))
	}
	return nil
}

// observe updates the scheduler's own metrics about binding conditions like the in-tree plugin: the duration once for
// each device of the pod, the number of allocations only for devices with binding conditions.
func observe(profile string, claims []*resourceapi.ResourceClaim, duration time.Duration, err error) {
	status := statusOf(err)
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			kube.ObserveBindingConditions(profile, result.Driver, status, duration, len(result.BindingConditions) > 0)
		}
	}
}

// statusOf returns the label value for the outcome of a wait.
func statusOf(err error) string {
	switch {
	case err == nil:
		return kube.BindingConditionsSuccess
	case errors.Is(err, ErrTimeout):
		return kube.BindingConditionsTimeout
	case errors.Is(err, ErrFailed):
		return kube.BindingConditionsFailed
	}
	return kube.BindingConditionsError
}
