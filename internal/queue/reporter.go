package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

const (
	// mostUnseen limits the looks for a message that was written: the informer may be behind by minutes.
	mostUnseen = 100
	// Delay is the time for which a pod must lack a claim before users are told. Claims from
	// templates usually exist after some milliseconds.
	Delay = 3 * time.Second
	// patience is the same for claims from templates while the controller makes those of pods that
	// came before. Of thousands of pods created at once, the last ones wait for minutes, and a
	// message about each would only make it worse.
	patience = 2 * time.Minute
	// turnPatience is the time for which a pod must be held for other namespaces before users are told.
	// Messages about thousands of pods would take requests from the pods whose turn it is.
	turnPatience = 30 * time.Second
)

// UnqueuedReporter looks at pods that were kept out for some time, and tells users why.
//
// It also activates a pod that lacks nothing any more, if the queue does not know that: the queue
// asks PreEnqueue about the pod as it was when its attempt failed, and no further event comes for
// changes in between.
//
// Replicas that wait to become leader report as well, with the same result.
type UnqueuedReporter struct {
	handle fwk.Handle
	pods   corelisters.PodLister
	kept   KeptOut
	made   *ClaimsMade
	tried  *Pods
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	// pending holds the pods to look at. The scheduling queue may ask about a pod a thousand times
	// before that, and the workqueue is expensive to ask.
	mutex   sync.Mutex
	pending map[types.NamespacedName]plannedLook
}

// plannedLook is a look that will be taken at a pod.
type plannedLook struct {
	// begun is the number of attempts that had begun when the pod was kept out the last time, or inTurn.
	begun int
	// asked is set if the pod was kept out since the last look.
	asked bool
	// told is the message that an earlier look has written, "" if none: an attempt may have written its reason just before. unseen is the number
	// of looks since that have not seen it.
	told   string
	unseen int
}

// KeptOut knows why pods are kept out of the queue.
type KeptOut interface {
	// Lacks returns what a pod lacks, nil if nothing.
	Lacks(pod *v1.Pod) error
}

// New returns a UnqueuedReporter. made knows which claims are still being made, and tried has the pods that were tried.
func New(handle fwk.Handle, kept KeptOut, made *ClaimsMade, tried *Pods) *UnqueuedReporter {
	return &UnqueuedReporter{
		handle:  handle,
		pods:    handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		kept:    kept,
		made:    made,
		tried:   tried,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		pending: make(map[types.NamespacedName]plannedLook),
	}
}

// inTurn stands for the number of attempts of pods that Turns holds. Turns has them tried, and again only after an event: the
// number of attempts of a pod without claims is unknown.
const inTurn = -1

// Add schedules a look at a pod that was kept out.
func (g *UnqueuedReporter) Add(pod *v1.Pod) { g.add(pod, g.tried.Begun(pod.UID)) }

// AddHeld schedules a look at a pod that Turns holds, to tell users if that lasts.
func (g *UnqueuedReporter) AddHeld(pod *v1.Pod) { g.add(pod, inTurn) }

func (g *UnqueuedReporter) add(pod *v1.Pod, begun int) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	g.mutex.Lock()
	next, already := g.pending[key]
	next.begun, next.asked = begun, true
	g.pending[key] = next
	g.mutex.Unlock()
	if !already {
		g.queue.AddAfter(key, Delay)
	}
}

// expect records that the UnqueuedReporter will look at a pod once more; a newer record keeps its number of attempts. It reports whether
// there is one.
func (g *UnqueuedReporter) expect(key types.NamespacedName, again plannedLook) (already bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	next, already := g.pending[key]
	if already {
		again.begun, again.asked = next.begun, again.asked || next.asked
	}
	g.pending[key] = again
	return already
}

// next waits for a pod to look at. A pod that is added from now on is looked at once more.
func (g *UnqueuedReporter) next() (key types.NamespacedName, now plannedLook, shutdown bool) {
	key, shutdown = g.queue.Get()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now = g.pending[key]
	delete(g.pending, key)
	return key, now, shutdown
}

// Run reports until the context ends.
func (g *UnqueuedReporter) Run(ctx context.Context) {
	context.AfterFunc(ctx, g.queue.ShutDown)
	for {
		key, now, shutdown := g.next()
		if shutdown {
			return
		}
		if err := g.report(ctx, key, &now); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot report why a pod is not queued; trying again", "pod", key)
			now.asked = true
			g.expect(key, now)
			g.queue.AddRateLimited(key)
		} else {
			g.queue.Forget(key)
		}
		g.queue.Done(key)
	}
}

// report sets the pod's PodScheduled condition if a claim is still missing, and ends the pod's nomination: nobody knows when
// it will use what is kept for it, and the scheduler does not try it before. If none is missing, the
// pod is tried, unless that was done since it was kept out, or Turns does it. If that was done while the look before wrote what the pod
// lacked, the reason of the attempt may be lost; the pod is tried for another one.
func (g *UnqueuedReporter) report(ctx context.Context, key types.NamespacedName, now *plannedLook) error {
	pod, err := g.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil // Gone or not waiting any more.
	}
	missing := g.kept.Lacks(pod)
	if missing == nil {
		_, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
		outdated := now.told != "" && condition != nil && condition.Message == now.told
		switch {
		case outdated || now.begun != inTurn && g.tried.Begun(pod.UID) == now.begun:
			g.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{key.String(): pod})
		case now.told != "" && now.unseen < mostUnseen:
			now.unseen++ // The informer may be behind the write.
			g.lookAgain(key, *now)
		}
		return nil
	}
	if !now.asked && now.told == missing.Error() {
		return nil // It was said, and who replaced it may answer without end: a replica of another release.
	}
	if g.isEarly(missing, pod.CreationTimestamp.Time) {
		g.lookAgain(key, *now)
		return nil
	}
	status := pod.Status.DeepCopy()
	nominated := status.NominatedNodeName != "" && !errors.As(missing, new(Turn))
	if nominated {
		status.NominatedNodeName = "" // Others may have the room that the scheduler keeps for the pod there.
	}
	changed := podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type:               v1.PodScheduled,
		ObservedGeneration: podutil.ObservedGeneration(pod, v1.PodScheduled),
		Status:             v1.ConditionFalse,
		Reason:             v1.PodReasonUnschedulable,
		Message:            missing.Error(),
	})
	if !changed && !nominated {
		return nil
	}
	if changed {
		now.told, now.unseen = missing.Error(), 0 // It may be stored although the answer is an error.
	}
	if err := kube.PatchPodStatus(ctx, g.handle.ClientSet(), pod, status); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	g.lookAgain(key, plannedLook{begun: now.begun, told: now.told})
	g.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", missing.Error())
	return nil
}

// lookAgain schedules another look at a pod, unless there will be one anyway.
func (g *UnqueuedReporter) lookAgain(key types.NamespacedName, again plannedLook) {
	if !g.expect(key, again) {
		g.queue.AddAfter(key, Delay)
	}
}

// isEarly reports whether what a pod lacks is likely to be there soon.
func (g *UnqueuedReporter) isEarly(missing error, created time.Time) bool {
	if held := new(Turn); errors.As(missing, held) {
		return time.Since(held.Since) < turnPatience
	}
	return errors.As(missing, new(claims.NotMade)) && g.made.ToCome(created) && time.Since(created) < patience
}
