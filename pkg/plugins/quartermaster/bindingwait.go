package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
)

// awaitBindingConditions waits until drivers have reported that the devices of all
// claims are ready, which may take minutes (KEP-5007). It comes after the check: whoever
// waits holds the devices for good. Pods that share a claim wait side by side, each with
// its own reservation. The answer is nil if there is nothing to wait for.
func (pl *Quartermaster) awaitBindingConditions(ctx context.Context, c *cycle, pod *v1.Pod, node string) (*bindingWait, error) {
	if !pl.bindingConditions || !c.hasBindingConditions() {
		return nil, nil
	}
	wait := &bindingWait{pl: pl, cycle: c, pod: pod, node: node, begin: time.Now()}
	err := wait.run(ctx)
	pl.observeBinding(c, time.Since(wait.begin), err)
	return wait, err
}

// hasBindingConditions reports whether a claim has a device with binding conditions.
func (c *cycle) hasBindingConditions() bool {
	for _, podClaim := range c.claims {
		if hasBindingConditions(podClaim.claim) {
			return true
		}
	}
	return false
}

// bindingWait is one pod that waits for its devices.
type bindingWait struct {
	pl    *Quartermaster
	cycle *cycle
	pod   *v1.Pod
	node  string
	begin time.Time
	// announced is set once it is known that there is something to wait for.
	announced bool
	// broken are the claims that fail or take too long, by their positions: the last pod to
	// give one back clears the allocation, and with it what drivers have reported.
	broken []int
}

// run returns nil when all claims are ready, or why that is not to be waited for.
func (w *bindingWait) run(ctx context.Context) error {
	objects := []types.UID{w.pod.UID}
	for _, podClaim := range w.cycle.claims {
		objects = append(objects, podClaim.claim.UID)
	}
	changed, leave := w.pl.watchers.watch(objects...)
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
		case <-w.pl.stopping.Done():
		}
		timer.Stop()
		if err := errors.Join(context.Cause(ctx), context.Cause(w.pl.stopping)); err != nil {
			return fmt.Errorf("waiting for the binding conditions of devices on node %s: %w", w.node, err)
		}
	}
}

// announce says that the pod waits, once.
func (w *bindingWait) announce(ctx context.Context) {
	if w.announced {
		return
	}
	w.announced = true
	var missing []readiness
	for _, podClaim := range w.cycle.claims {
		missing = append(missing, readinessOf(podClaim.claim)...)
	}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Waiting for binding conditions", "pod", klog.KObj(w.pod), "node", w.node, "pending", describePending(missing))
	w.pl.handle.EventRecorder().WithLogger(logger).Eventf(w.pod, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		"devices on node %s are not ready: %s", w.node, describePending(missing))
}

// look finds out how things are. The deadline is when to look again at the latest; it is
// zero if all claims are ready. All claims are looked at, so that all that are broken get
// marked; the first error is returned.
func (w *bindingWait) look() (deadline time.Time, err error) {
	if err := w.podIsGone(); err != nil {
		return time.Time{}, err
	}
	for _, podClaim := range w.cycle.claims {
		limit, problem := w.lookAt(podClaim)
		switch {
		case problem != nil && err == nil:
			err = problem
		case !limit.IsZero() && (deadline.IsZero() || limit.Before(deadline)):
			deadline = limit
		}
	}
	return deadline, err
}

// lookAt is look for one claim.
func (w *bindingWait) lookAt(podClaim *podClaim) (deadline time.Time, err error) {
	if err := w.refresh(podClaim); err != nil {
		return time.Time{}, err
	}
	devices := readinessOf(podClaim.claim)
	if err := bindingFailure(podClaim.claim, devices); err != nil {
		w.giveUp(podClaim)
		return time.Time{}, err
	}
	if isReady(devices) {
		return time.Time{}, nil
	}
	deadline = w.deadline(podClaim)
	if !time.Now().Before(deadline) {
		w.giveUp(podClaim)
		return time.Time{}, w.pl.bindingTimedOut(podClaim.claim, devices)
	}
	if soon := time.Now().Add(unlistedInterval); soon.Before(deadline) && w.unlisted(podClaim) {
		return soon, nil
	}
	return deadline, nil
}

// giveUp has the claim deallocated when the attempt has failed, unless others use it.
func (w *bindingWait) giveUp(podClaim *podClaim) {
	w.broken = append(w.broken, slices.Index(w.cycle.claims, podClaim))
}

// unlistedInterval is when to look again at a claim that the informer does not have.
const unlistedInterval = time.Second

// unlisted reports whether the informer does not have the claim: not yet, or not any more.
// The scheduler's manager of claims may hear of a deletion after us, and nothing would
// tell when it has.
func (w *bindingWait) unlisted(podClaim *podClaim) bool {
	return fromStore[resourceapi.ResourceClaim](w.pl.state.claims, podClaim.claim.Namespace+"/"+podClaim.claim.Name) == nil
}

// deadline is the end of the binding timeout. It began when the claim was allocated, which
// may have been long ago, for another pod or by another process. Its clock may have
// been wrong, and the time need not be known; nobody waits for longer than the timeout.
func (w *bindingWait) deadline(podClaim *podClaim) time.Time {
	timeout := w.pl.args.BindingTimeout.Duration
	deadline := w.begin.Add(timeout)
	if allocated := podClaim.claim.Status.Allocation.AllocationTimestamp; allocated != nil && allocated.Add(timeout).Before(deadline) {
		return allocated.Add(timeout)
	}
	return deadline
}

// refresh takes over the latest state of a claim. It fails if that is not what was
// confirmed any more. That is from the server's answer, so a claim that was just made is
// perhaps not known elsewhere yet.
func (w *bindingWait) refresh(podClaim *podClaim) error {
	confirmed := podClaim.claim
	latest := w.pl.claim(confirmed.Namespace, confirmed.Name)
	problem := ""
	switch {
	case latest == nil && w.pl.state.order.Allocated(confirmed.UID) || isOlder(latest, confirmed):
		return nil
	case latest == nil || latest.UID != confirmed.UID:
		problem = "it was deleted"
	case !apiequality.Semantic.DeepEqual(latest.Status.Allocation, confirmed.Status.Allocation):
		problem = "its allocation was removed"
	case !resourceclaim.IsReservedForPod(w.pod, latest, w.pl.features.EnableDRAWorkloadResourceClaims):
		problem = "it is not reserved for the pod any more"
	}
	if problem != "" {
		return fmt.Errorf("while the pod waited for devices of claim %s to get ready, %s; trying again", klog.KObj(confirmed), problem)
	}
	podClaim.claim = latest
	return nil
}

// isOlder reports whether a state is known to be from before another one.
func isOlder(state, other *resourceapi.ResourceClaim) bool {
	return state != nil && objectversion.Newer(other.ResourceVersion, state.ResourceVersion)
}

// podIsGone fails if nobody wants the pod any more.
func (w *bindingWait) podIsGone() error {
	latest := fromStore[v1.Pod](w.pl.pods, w.pod.Namespace+"/"+w.pod.Name)
	if latest == nil || latest.UID != w.pod.UID || latest.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s was deleted while it waited for its devices to get ready", klog.KObj(w.pod))
	}
	return nil
}
