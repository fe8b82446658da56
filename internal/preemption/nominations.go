package preemption

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Nomination is what a pod is to get on the node that it is nominated for, as soon as others have gone.
type Nomination struct {
	Pod types.UID
	// Group is "namespace/name" of the pod's PodGroup, "" if it has none: pods of a group do not keep devices from each
	// other.
	Group    string
	Priority int32
	// Node is status.nominatedNodeName.
	Node string
	// Plan has what the pod's claims are to get. Pods of lower priority leave that alone.
	Plan []ledger.Use
	// Victims are the pods that have to go for it, and Awaited their claims.
	Victims []*v1.Pod
	Awaited []ledger.ClaimRef
	// Until is when the devices are not kept any more, should the pod be of a scheduler that does not run; zero for
	// pods of this one.
	Until time.Time
}

// Nominations are those of all profiles of a scheduler, each from the eviction of the first victim until the pod is
// bound, gone, or not nominated any more. They are safe for concurrent use.
type Nominations struct {
	mutex sync.Mutex
	byPod map[types.UID]*Nomination
	// nominees are the pods that are nominated according to the API server.
	nominees map[types.UID]*nominee
}

// nominee is a pod that is nominated for a node, by whichever scheduler.
type nominee struct {
	pod *v1.Pod
	// since is when that became known, and planned when it was last tried to make a plan.
	since, planned time.Time
}

// KeptForOthers is how long devices are kept for a pod of another scheduler after it became known that it is
// nominated.
const KeptForOthers = 5 * time.Minute

// planAgainAfter is when it is tried again to plan what a nominated pod is to get, unless a pod with claims leaves or is
// gone before.
const planAgainAfter = time.Second

// NewNominations returns an empty list.
func NewNominations() *Nominations {
	return &Nominations{byPod: make(map[types.UID]*Nomination), nominees: make(map[types.UID]*nominee)}
}

// Set replaces the nomination of a pod. It returns the devices of the plan before, which others may use again.
func (n *Nominations) Set(nomination *Nomination) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	before := n.byPod[nomination.Pod]
	n.byPod[nomination.Pod] = nomination
	return planned(before)
}

// Drop ends the nomination of a pod, and returns the devices that it held for that.
func (n *Nominations) Drop(pod types.UID) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.drop(pod)
}

// Expire is Drop, unless the pod has got another nomination.
func (n *Nominations) Expire(nomination *Nomination) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.byPod[nomination.Pod] != nomination {
		return nil
	}
	return n.drop(nomination.Pod)
}

// drop is Drop. It needs the mutex.
func (n *Nominations) drop(pod types.UID) ledger.Freed {
	before := n.byPod[pod]
	delete(n.byPod, pod)
	return planned(before)
}

// Unplanned returns the nominated pods of higher priority than some pod of which it is not known yet what they are to
// get: after a restart, and those of other schedulers. Of the same priority are most pods in most clusters, and
// kube-scheduler also nominates those that it is just binding (KEP-5278).
func (n *Nominations) Unplanned(except types.UID, priority int32, of func(*v1.Pod) int32, now time.Time) []*v1.Pod {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var pods []*v1.Pod
	for uid, nominee := range n.nominees {
		expired := !nominee.since.IsZero() && now.Sub(nominee.since) > KeptForOthers
		if n.byPod[uid] == nil && uid != except && !expired && of(nominee.pod) > priority && now.Sub(nominee.planned) >= planAgainAfter {
			if nominee.since.IsZero() {
				nominee.since = now
			}
			nominee.planned = now
			pods = append(pods, nominee.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(of(b), of(a)), cmp.Compare(a.UID, b.UID))
	})
	return pods
}

// Of returns the nomination of a pod, nil if there is none.
func (n *Nominations) Of(pod types.UID) *Nomination {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.byPod[pod]
}

// areNone reports whether there are no nominations.
func (n *Nominations) areNone() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return len(n.byPod) == 0
}

// Against returns the nominations whose devices a pod of some priority has to leave alone: those of other pods of the
// same or a higher priority, as for all that kube-scheduler keeps for nominated pods; of other schedulers' pods only
// those of a higher one.
func (n *Nominations) Against(pod *v1.Pod, priority int32, now time.Time) []*Nomination {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var against []*Nomination
	group := GroupOf(pod)
	for uid, nomination := range n.byPod {
		enough := priority
		if !nomination.Until.IsZero() {
			if now.After(nomination.Until) {
				continue
			}
			enough = priority + 1
		}
		if uid != pod.UID && nomination.Priority >= enough && (group == "" || nomination.Group != group) {
			against = append(against, nomination)
		}
	}
	return against
}

// GroupOf returns "namespace/name" of a pod's PodGroup, of the API or of scheduler-plugins, "" if it has none.
func GroupOf(pod *v1.Pod) string {
	if name := podgroup.NameOf(pod); name != "" {
		return pod.Namespace + "/" + name
	}
	return coscheduling.KeyOf(pod)
}

// Changed takes over what the API server has of a pod: before and after an event, nil if there was no such pod. The
// nomination of a pod ends that is bound or has ended, or that is nominated for another node or for none. It returns
// the devices that it held for that.
func (n *Nominations) Changed(before, after *v1.Pod) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.planAgain(before, after)
	var freed ledger.Freed
	if before != nil && (after == nil || after.UID != before.UID) {
		delete(n.nominees, before.UID)
		freed = n.drop(before.UID)
	}
	if after == nil {
		return freed
	}
	if waits := after.Spec.NodeName == "" && after.DeletionTimestamp == nil && !hasEnded(after); !waits {
		delete(n.nominees, after.UID)
		return freed.And(n.drop(after.UID))
	}
	if after.Status.NominatedNodeName == "" {
		delete(n.nominees, after.UID)
	} else if known := n.nominees[after.UID]; known == nil || known.pod.Status.NominatedNodeName != after.Status.NominatedNodeName {
		n.nominees[after.UID] = &nominee{pod: after}
	}
	// An event may be late, and about a nomination before this one.
	if nomination := n.byPod[after.UID]; nomination != nil && before != nil && after.Status.NominatedNodeName != nomination.Node &&
		before.Status.NominatedNodeName == nomination.Node {
		return freed.And(n.drop(after.UID))
	}
	return freed
}

// planAgain has pods planned for without delay, if the event is that another one leaves or is gone: what could not be
// planned before may be now, and it must not be taken by others first.
func (n *Nominations) planAgain(before, after *v1.Pod) {
	if before == nil || !mayHoldDevices(before) || after != nil && after.UID == before.UID && isGoing(after) == isGoing(before) {
		return
	}
	for _, nominee := range n.nominees {
		nominee.planned = time.Time{}
	}
}

// isGoing reports whether a pod is being deleted or has ended.
func isGoing(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil || hasEnded(pod) }

// planned lists the devices of a plan.
func planned(nomination *Nomination) ledger.Freed {
	if nomination == nil {
		return nil
	}
	devices := make(ledger.Freed)
	for i := range nomination.Plan {
		for result := range ledger.Used(nomination.Plan[i].Allocation) {
			id := inventory.PoolID{Driver: result.Driver, Name: result.Pool}
			devices[id] = append(devices[id], result.Device)
		}
	}
	return devices
}

// Leaving returns those of the victims of a nomination that are being deleted and not gone yet.
func (h *Holders) Leaving(nomination *Nomination) []*v1.Pod {
	var now []*v1.Pod
	for _, pod := range nomination.Victims {
		if latest := h.Claims.Pod(pod.Namespace, pod.Name); latest != nil && latest.UID == pod.UID {
			now = append(now, latest)
		}
	}
	return Leaving(now)
}

// overdue is how long after the end of its grace period a pod is not waited for any more: its node may be dead.
const overdue = time.Minute

// Leaving returns those of the pods that are being deleted and not gone yet.
func Leaving(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		// The time of deletion includes the grace period.
		return pod.DeletionTimestamp == nil || hasEnded(pod) || time.Since(pod.DeletionTimestamp.Time) > overdue
	})
}
