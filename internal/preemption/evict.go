package preemption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
)

// A Teller describes what a victim gives up: "claim x with devices a, b". It returns "" for a victim without devices.
type Teller func(victim *v1.Pod) string

// eviction evicts the victims of preemption.
type eviction struct {
	handle fwk.Handle
	pods   corelisters.PodLister
	tell   Teller
	gangs  Gangs
	// leadership is checked before each eviction: another replica chooses victims of its own.
	leadership lease.Leadership
	// inBackground is true if evictions run outside of scheduling cycles (KEP-4832).
	inBackground bool

	mutex sync.Mutex
	// deleted holds the victims of a preemptor whose deletion the informer may not show yet.
	deleted map[types.UID][]*v1.Pod
}

// lookPoll is the interval between two looks at a victim.
const lookPoll = 10 * time.Millisecond

// longestStop limits how long a preemptor waits until the PreBind of a victim has ended, or until its deletion is seen: a plugin may take
// no notice of being told to stop, and a watch may be late.
const longestStop = 10 * time.Second

// evictAll implements preemption.Executor.PreemptPod: it evicts a pod and its companions. It reports whether the pod
// was not bound.
func (e *eviction) evictAll(ctx context.Context, target preemption.Candidate, preemptor preemption.Preemptor, victim *v1.Pod, plugin string) (bool, error) {
	companions := e.companions(target, preemptor, victim) // Before the gang has one less.
	unbound, binding, err := e.evict(ctx, target, preemptor, victim, plugin)
	if e.inBackground {
		if binding != nil {
			defer e.awaitEnd(ctx, victim, binding)
		}
		if err == nil && !unbound {
			e.noteDeleted(preemptor.UID(), victim)
		}
		if err != nil || isLast(target, victim) {
			defer e.awaitSeen(ctx, preemptor)
		}
	}
	if err != nil {
		return unbound, err
	}
	if len(companions) == 0 {
		return unbound, nil
	}
	failed := make([]error, len(companions))
	e.handle.Parallelizer().Until(ctx, len(companions), func(i int) {
		if companions[i].DeletionTimestamp == nil {
			_, _, failed[i] = e.evict(ctx, target, preemptor, companions[i], plugin)
		}
	}, plugin)
	return unbound, errors.Join(failed...)
}

// evict sends a pod that is not bound back to the queue; it deletes a bound pod, with its grace
// period. It reports whether the pod was not bound, and returns the PreBind that was told to stop, nil if there is none.
func (e *eviction) evict(ctx context.Context, target preemption.Candidate, preemptor preemption.Preemptor, victim *v1.Pod, plugin string) (unbound bool, binding fwk.PodInPreBind, err error) {
	if err := e.leadership.Leads(); err != nil {
		return false, nil, fmt.Errorf("pod %s must not be evicted by this process: %w", klog.KObj(victim), err)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "victim", klog.KObj(victim), "preemptor", klog.KObj(preemptor), "node", target.Name())
	gives := e.tell(victim)
	if unbound, binding = e.turnBack(victim, plugin); unbound {
		logger.V(2).Info("Turned back a pod that was about to be bound, in favor of one of higher priority", "gives", gives)
		e.record(ctx, target, preemptor, victim, gives, " It was not bound yet.")
		return true, binding, nil
	}
	if err := e.delete(ctx, preemptor, victim, gives); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Conflict: another pod has the name by now.
			logger.V(2).Info("The victim of a preemption is gone already")
			return false, nil, nil
		}
		return false, nil, fmt.Errorf("evict pod %s for %s %s: %w; the next attempt to schedule that tries again", klog.KObj(victim), preemptor.Type(), klog.KObj(preemptor), err)
	}
	logger.V(2).Info("Evicted a pod in favor of one of higher priority", "gives", gives)
	e.record(ctx, target, preemptor, victim, gives, "")
	return false, nil, nil
}

// turnBack ends the attempt of a pod that waits to be bound, and returns its PreBind, nil if that has not begun. It returns
// false if the pod does not wait.
func (e *eviction) turnBack(victim *v1.Pod, plugin string) (bool, fwk.PodInPreBind) {
	if waiting := e.handle.GetWaitingPod(victim.UID); waiting != nil {
		return waiting.Preempt(plugin, "preempted"), nil
	}
	if binding := e.handle.GetPodInPreBind(victim.UID); binding != nil && binding.CancelPod("preempted by "+plugin) {
		return true, binding
	}
	return false, nil
}

// awaitEnd waits until the PreBind of a pod that was turned back has ended. Until then the pod counts on its node, and the preemptor,
// which is activated after the eviction, would only choose it once more.
func (e *eviction) awaitEnd(ctx context.Context, victim *v1.Pod, binding fwk.PodInPreBind) {
	_ = wait.PollUntilContextTimeout(ctx, lookPoll, longestStop, false, func(context.Context) (bool, error) {
		return e.handle.GetPodInPreBind(victim.UID) != binding, nil
	})
}

// isLast reports whether a victim is the one that the Executor evicts after all others.
func isLast(target preemption.Candidate, victim *v1.Pod) bool {
	for _, other := range slices.Backward(target.Victims().Pods) {
		if other.DeletionTimestamp == nil {
			return other.UID == victim.UID
		}
	}
	return false
}

// noteDeleted notes that the API server has accepted the deletion of a victim.
func (e *eviction) noteDeleted(preemptor types.UID, victim *v1.Pod) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.deleted == nil {
		e.deleted = make(map[types.UID][]*v1.Pod)
	}
	e.deleted[preemptor] = append(e.deleted[preemptor], victim)
}

// awaitSeen waits until the informer shows all deletions for a preemptor. Until then an attempt for it, which the end of one victim or an
// eviction that failed may cause, would take the others for pods that stay, and evict more. The last eviction waits, and not each of
// them: meanwhile other schedulers take what is free already. A gang of scheduler-plugins waits until its victims are gone anyway.
func (e *eviction) awaitSeen(ctx context.Context, preemptor preemption.Preemptor) {
	if _, waits := preemptor.(*gangPreemptor); !waits {
		_ = wait.PollUntilContextTimeout(ctx, lookPoll, longestStop, true, func(context.Context) (bool, error) {
			return !slices.ContainsFunc(e.deletedFor(preemptor.UID()), e.seemsToStay), nil
		})
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.deleted, preemptor.UID())
}

func (e *eviction) deletedFor(preemptor types.UID) []*v1.Pod {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Clone(e.deleted[preemptor])
}

// seemsToStay reports whether a victim is not being deleted as far as the informer shows.
func (e *eviction) seemsToStay(victim *v1.Pod) bool {
	latest, err := e.pods.Pods(victim.Namespace).Get(victim.Name)
	return err == nil && latest.UID == victim.UID && latest.DeletionTimestamp == nil
}

// delete writes the reason for the deletion into the pod's status (KEP-3329), and deletes the pod.
func (e *eviction) delete(ctx context.Context, preemptor preemption.Preemptor, victim *v1.Pod, gives string) error {
	message := fmt.Sprintf("%s: preempting to accommodate a higher priority %s", preemptor.SchedulerName(), preemptor.Type())
	if gives != "" {
		message += fmt.Sprintf(" (%s), which takes %s", preemptor.UID(), gives)
	}
	status := victim.Status.DeepCopy()
	updated := podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type:               v1.DisruptionTarget,
		ObservedGeneration: podutil.ObservedGeneration(victim, v1.DisruptionTarget),
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message:            message,
	})
	if updated {
		if err := kube.PatchPodStatus(ctx, e.handle.ClientSet(), victim, status); err != nil {
			return err
		}
	}
	return e.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
}

// record writes an event about the victim. Like kube-scheduler's event it names the preemptor by UID only:
// the victim's users may not be allowed to see other namespaces.
func (e *eviction) record(ctx context.Context, target preemption.Candidate, preemptor preemption.Preemptor, victim *v1.Pod, gives, more string) {
	message := fmt.Sprintf("Preempted by %s %v on node %v", preemptor.Type(), preemptor.UID(), target.Name())
	if gives != "" {
		message += fmt.Sprintf(", which has priority %d and takes %s.", preemptor.Priority(), gives)
	}
	e.handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(victim, preemptor.Obj(), v1.EventTypeNormal, "Preempted", "Preempting", "%s", message+more)
}
