package preemption

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// nomineePatience is the time that the pods of a PodGroup have to use what they were nominated for, after the last victim
// is gone. Their group is tried at once, and again when its victims' claims are deallocated.
const nomineePatience = 30 * time.Second

// GroupNominees ends nominations of pods of PodGroups of the API (KEP-4671) that do not lead to anything: others may have
// the room that kube-scheduler keeps for such a pod on its node, and the devices.
//
// kube-scheduler ends a nomination when an attempt for the pod alone fails. It does not when an attempt for a PodGroup
// fails, nor when no attempt is made any more because the PodGroup is gone, or one of its pods is kept out.
type GroupNominees struct {
	client      kubernetes.Interface
	pods        corelisters.PodLister
	nominations *Nominations
	holders     *Holders
	// profile is the schedulerName of the pods to look at.
	profile string
	// leadership says whether this process may write.
	leadership lease.Leadership
	// attempts has the attempts to schedule pods: kube-scheduler also nominates pods that are about to be bound.
	attempts Attempts

	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	mutex sync.Mutex
	// since holds when the nomination of a pod was seen first, and for which node.
	since map[types.UID]nominated
}

type nominated struct {
	node string
	at   time.Time
	// waits is set until a look has found that the pod waits for nothing more: only then does its patience begin.
	waits bool
}

// Attempts are attempts to schedule pods.
type Attempts interface {
	// IsTried reports whether there is an attempt for a pod.
	IsTried(pod types.UID) bool
}

// NewGroupNominees returns GroupNominees for the pods of a profile. It must be called before the informer of pods starts.
func NewGroupNominees(client kubernetes.Interface, pods corelisters.PodLister, nominations *Nominations, holders *Holders, profile string,
	leadership lease.Leadership, attempts Attempts) *GroupNominees {
	return &GroupNominees{
		client: client, pods: pods, nominations: nominations, holders: holders, profile: profile, leadership: leadership, attempts: attempts,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		since: make(map[types.UID]nominated),
	}
}

// isNominee reports whether a pod of a PodGroup waits for the room on a node.
func isNominee(pod *v1.Pod) bool {
	return pod != nil && pod.Status.NominatedNodeName != "" && dra.PodGroupName(pod) != "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !dra.HasEnded(pod)
}

// PodChanged handles an event about a pod.
func (g *GroupNominees) PodChanged(e informer.Event[v1.Pod]) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch after := e.After; {
	case after == nil:
		delete(g.since, e.Before.UID)
	case !isNominee(after) || after.Spec.SchedulerName != g.profile:
		delete(g.since, after.UID)
	case g.since[after.UID].node != after.Status.NominatedNodeName:
		g.since[after.UID] = nominated{node: after.Status.NominatedNodeName, at: time.Now(), waits: true}
		g.queue.AddAfter(types.NamespacedName{Namespace: after.Namespace, Name: after.Name}, nomineePatience)
	}
}

// Run ends nominations until the context ends.
func (g *GroupNominees) Run(ctx context.Context) {
	context.AfterFunc(ctx, g.queue.ShutDown)
	for {
		key, shutdown := g.queue.Get()
		if shutdown {
			return
		}
		again, err := g.look(ctx, key)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Cannot end the nomination of a pod of a PodGroup; trying again", "pod", key)
			g.queue.AddRateLimited(key)
		case again > 0:
			g.queue.AddAfter(key, again)
		default:
			g.queue.Forget(key)
		}
		g.queue.Done(key)
	}
}

// look ends the nomination of a pod whose victims have been gone for long enough. It returns the time until the next look, 0 if
// there is nothing to look at any more.
func (g *GroupNominees) look(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	pod, err := g.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !isNominee(pod) {
		return 0, nil
	}
	if g.leadership.Leads() != nil {
		return nomineePatience, nil // The leader does it, or it is up to this process by then.
	}
	known := g.seen(pod, g.attempts.IsTried(pod.UID) || g.awaits(pod))
	if known.node != pod.Status.NominatedNodeName {
		return 0, nil // The event that says so is on its way, and has the pod looked at again.
	}
	if left := nomineePatience - time.Since(known.at); left > 0 {
		return left, nil
	}
	status := pod.Status.DeepCopy()
	status.NominatedNodeName = ""
	klog.FromContext(ctx).V(2).Info("Ending the nomination of a pod of a PodGroup that does not get there", "pod", klog.KObj(pod), "node", klog.KRef("", known.node))
	return 0, kube.PatchPodStatus(ctx, g.client, pod, status)
}

// seen returns since when the nomination of a pod leads to nothing: from now on if the pod still waits for something.
func (g *GroupNominees) seen(pod *v1.Pod, waits bool) nominated {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known, found := g.since[pod.UID]
	if found && (waits || known.waits) { // The last victim may have gone a moment ago.
		known.at, known.waits = time.Now(), waits
		g.since[pod.UID] = known
	}
	return known
}

// awaits reports whether victims are still leaving for a pod, from its node or from where they have its devices.
func (g *GroupNominees) awaits(pod *v1.Pod) bool {
	if nomination := g.nominations.Of(pod.UID); nomination != nil && len(g.holders.Leaving(nomination)) > 0 {
		return true
	}
	pods, err := g.pods.List(labels.Everything())
	return err == nil && slices.ContainsFunc(pods, func(other *v1.Pod) bool {
		return other.Spec.NodeName == pod.Status.NominatedNodeName && isVictim(other) && len(Leaving([]*v1.Pod{other})) > 0
	})
}

// isVictim reports whether a pod was evicted for another one. Other pods that end on a node do not prolong what is kept there.
func isVictim(pod *v1.Pod) bool {
	_, condition := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget)
	return condition != nil && condition.Status == v1.ConditionTrue && condition.Reason == v1.PodReasonPreemptionByScheduler
}
