// Package gate tells users why a pod does not get into the scheduling queue. The scheduler
// itself keeps what PreEnqueue says to itself, so a pod whose template does not exist would be
// stuck for no stated reason.
package gate

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
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
)

const (
	// Delay is how long a pod may lack a claim before that counts as worth
	// telling. Claims from templates usually exist after some milliseconds.
	Delay = 3 * time.Second
	// patience is how long a pod may lack a claim from a template while claims are being
	// made for pods that came before it. Of thousands of pods created at once, the last ones wait for minutes;
	// telling each of them why would only make it worse.
	patience = 2 * time.Minute
	// turnPatience is how long a pod may be held for the sake of other namespaces before that is told. To tell thousands of pods takes
	// requests to the API server from those whose turn it is.
	turnPatience = 30 * time.Second
)

// Reporter looks at pods that were kept out for some time, and tells why.
//
// It also has a pod tried that nothing is missing for any more, should that be news to the
// queue: PreEnqueue is asked about the pod as it was when its attempt failed, and no event
// comes any more of what changed in between.
//
// Replicas that wait to become leader report as well; they say the same.
type Reporter struct {
	handle fwk.Handle
	pods   corelisters.PodLister
	check  func(*v1.Pod) error
	toCome func(time.Time) bool
	begun  func(types.UID) int
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	// pending are the pods that are going to be looked at. The scheduling queue may ask about
	// a pod a thousand times before that, and the workqueue is expensive to ask. For each, it
	// is known how many attempts had begun when it was kept out the last time, or that Turns holds it.
	mutex   sync.Mutex
	pending map[types.NamespacedName]int
}

// New makes a Reporter. check returns what a pod lacks, nil if nothing; toCome reports whether
// the claims of pods that were created at the given time are still being made, and begun
// returns how many attempts to schedule a pod have begun.
func New(handle fwk.Handle, check func(*v1.Pod) error, toCome func(time.Time) bool, begun func(types.UID) int) *Reporter {
	return &Reporter{
		handle:  handle,
		pods:    handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		check:   check,
		toCome:  toCome,
		begun:   begun,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		pending: make(map[types.NamespacedName]int),
	}
}

// inTurn is noted in place of the number of attempts for pods that Turns holds. It has them tried, and again only when something
// happens: of a pod without claims nobody knows how many attempts have begun.
const inTurn = -1

// Add remembers a pod that was kept out, to look at it again later.
func (g *Reporter) Add(pod *v1.Pod) { g.add(pod, g.begun(pod.UID)) }

// AddHeld remembers a pod that Turns holds, to tell why if that lasts.
func (g *Reporter) AddHeld(pod *v1.Pod) { g.add(pod, inTurn) }

func (g *Reporter) add(pod *v1.Pod, begun int) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	g.mutex.Lock()
	_, already := g.pending[key]
	g.pending[key] = begun
	g.mutex.Unlock()
	if !already {
		g.queue.AddAfter(key, Delay)
	}
}

// expect notes that a pod is going to be looked at once more. What was noted meanwhile is newer. It reports whether anything was.
func (g *Reporter) expect(key types.NamespacedName, begun int) (already bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if _, already = g.pending[key]; !already {
		g.pending[key] = begun
	}
	return already
}

// next waits for a pod to look at. Whoever adds it from now on has it looked at once more.
func (g *Reporter) next() (key types.NamespacedName, begun int, shutdown bool) {
	key, shutdown = g.queue.Get()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	begun = g.pending[key]
	delete(g.pending, key)
	return key, begun, shutdown
}

// Run reports until the context ends.
func (g *Reporter) Run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		g.queue.ShutDown()
	}()
	for {
		key, begun, shutdown := g.next()
		if shutdown {
			return
		}
		if err := g.report(ctx, key, begun); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot report why a pod is not queued; trying again", "pod", key)
			g.expect(key, begun)
			g.queue.AddRateLimited(key)
		} else {
			g.queue.Forget(key)
		}
		g.queue.Done(key)
	}
}

// report sets the pod's PodScheduled condition if a claim is still missing, and ends the pod's nomination: nobody knows when
// it will use what is kept for it, and the scheduler does not try it before. If none is missing, the
// pod is tried, unless that was done since it was kept out, or Turns does it.
func (g *Reporter) report(ctx context.Context, key types.NamespacedName, begun int) error {
	pod, err := g.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil // Gone or not waiting any more.
	}
	missing := g.check(pod)
	if missing == nil {
		if begun != inTurn && g.begun(pod.UID) == begun {
			g.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{key.String(): pod})
		}
		return nil
	}
	if g.isEarly(missing, pod.CreationTimestamp.Time) {
		if !g.expect(key, begun) {
			g.queue.AddAfter(key, Delay)
		}
		return nil
	}
	status := pod.Status.DeepCopy()
	nominated := status.NominatedNodeName != "" && !errors.As(missing, new(Turn))
	if nominated {
		status.NominatedNodeName = "" // Others may have the room that the scheduler keeps for the pod there.
	}
	changed := podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type:               v1.PodScheduled,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, v1.PodScheduled),
		Status:             v1.ConditionFalse,
		Reason:             v1.PodReasonUnschedulable,
		Message:            missing.Error(),
	})
	if !changed && !nominated {
		return nil
	}
	if err := util.PatchPodStatus(ctx, g.handle.ClientSet(), pod.Name, pod.Namespace, &pod.Status, status); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	g.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", missing.Error())
	return nil
}

// isEarly reports whether what a pod lacks is likely to be there soon.
func (g *Reporter) isEarly(missing error, created time.Time) bool {
	if held := new(Turn); errors.As(missing, held) {
		return time.Since(held.Since) < turnPatience
	}
	return errors.As(missing, new(podclaims.NotMade)) && g.toCome(created) && time.Since(created) < patience
}
