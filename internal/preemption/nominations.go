package preemption

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A Nomination describes what a pod gets on its nominated node as soon as the victims are gone.
type Nomination struct {
	Pod types.UID
	// Group is "namespace/name" of the pod's PodGroup, "" if it has none. Pods of one group do not keep devices from
	// each other.
	Group    string
	Priority int32
	// Node is status.nominatedNodeName.
	Node string
	// Plan holds the planned allocations of the pod's claims. Pods of lower priority must not take these devices.
	Plan []ledger.Use
	// Relies are the allocations of those of its claims that have devices. They are kept like the plan if the claims lose them before the pod is
	// reserved: a claim that the pod shares with its victims is deallocated when these have ended.
	Relies []ledger.Use
	// Since is when it was made.
	Since time.Time
	// Victims are the pods that have to go for it, and Awaited the claims that become free then.
	Victims []*v1.Pod
	Awaited []ledger.ClaimRef
	// Theirs is set for a pod of another scheduler.
	Theirs bool
	// Until ends the nomination of a pod that may not be tried any more: of another scheduler, which may not run, or after a restart; zero for other pods of
	// this scheduler.
	Until time.Time
}

// Nominations holds the nominations of all profiles of a scheduler. Each lasts from the eviction of the first
// victim until the pod is bound, gone, or no longer nominated. It is safe for concurrent use.
type Nominations struct {
	mutex sync.Mutex
	byPod map[types.UID]*Nomination
	// nominees holds the pods that are nominated according to the API server, by UID.
	nominees map[types.UID]*nominee
}

// kept returns the allocations that are kept for the pod.
func (n *Nomination) kept() []ledger.Use { return slices.Concat(n.Plan, n.Relies) }

// A nominee is a pod that any scheduler has nominated for a node.
type nominee struct {
	pod *v1.Pod
	// since is the time when Unplanned first saw it, and planned the time of the last try to make a plan.
	since, planned time.Time
}

// KeptForOthers limits how long devices are kept for a nominated pod of another scheduler.
const KeptForOthers = 5 * time.Minute

// planAgainAfter is the pause between two tries to make a plan for a nominated pod. If a pod with claims leaves or is
// gone, there is no pause.
const planAgainAfter = time.Second

// plansAtOnce limits the plans in one attempt. The next attempt makes others.
const plansAtOnce = 128

// UndecidedFor limits how long others wait for the plan of a nominated pod: its author chose the expressions.
const UndecidedFor = 5 * time.Second

// NewNominations returns an empty list.
func NewNominations() *Nominations {
	return &Nominations{byPod: make(map[types.UID]*Nomination), nominees: make(map[types.UID]*nominee)}
}

// Set replaces the nomination of a pod. It returns the devices of the previous plan, which others may use again.
func (n *Nominations) Set(nomination *Nomination) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.set(nomination)
}

// SetNominated is Set for a pod that Unplanned has returned. It returns false, and changes nothing, if the pod is not nominated for
// that node any more: no event would end the nomination.
func (n *Nominations) SetNominated(nomination *Nomination) (freed ledger.Freed, ok bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if nominee := n.nominees[nomination.Pod]; nominee == nil || nominee.pod.Status.NominatedNodeName != nomination.Node {
		return nil, false
	}
	return n.set(nomination), true
}

// set implements Set. The caller must hold the mutex.
func (n *Nominations) set(nomination *Nomination) ledger.Freed {
	before := n.byPod[nomination.Pod]
	n.byPod[nomination.Pod] = nomination
	return planned(before)
}

// Drop ends the nomination of a pod, and returns the devices that were kept for it.
func (n *Nominations) Drop(pod types.UID) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.drop(pod)
}

// Expire does the same as Drop, unless the pod has another nomination by now.
func (n *Nominations) Expire(nomination *Nomination) ledger.Freed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.byPod[nomination.Pod] != nomination {
		return nil
	}
	return n.drop(nomination.Pod)
}

// drop implements Drop. The caller must hold the mutex.
func (n *Nominations) drop(pod types.UID) ledger.Freed {
	before := n.byPod[pod]
	delete(n.byPod, pod)
	return planned(before)
}

// A Ranking compares pods.
type Ranking interface {
	// Priority returns the priority of a pod.
	Priority(*v1.Pod) int32
	// Waits reports whether a pod of this scheduler is known not to fit.
	Waits(*v1.Pod) bool
}

// Unplanned returns the nominated pods without a plan that have a higher priority than the given one, or the same one if they wait: after a
// restart, and pods of other schedulers with a higher priority. Most pods in most clusters share one priority, and kube-scheduler also nominates
// pods that it is binding (KEP-5278): these do not wait.
func (n *Nominations) Unplanned(except types.UID, priority int32, by Ranking, now time.Time) []*v1.Pod {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var found []*nominee
	for uid, nominee := range n.nominees {
		expired := !nominee.since.IsZero() && now.Sub(nominee.since) > KeptForOthers
		if n.byPod[uid] != nil || uid == except || expired || now.Sub(nominee.planned) < planAgainAfter {
			continue
		}
		if own := by.Priority(nominee.pod); own > priority || own == priority && by.Waits(nominee.pod) {
			found = append(found, nominee)
		}
	}
	slices.SortFunc(found, func(a, b *nominee) int {
		return cmp.Or(cmp.Compare(by.Priority(b.pod), by.Priority(a.pod)), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	var pods []*v1.Pod
	for _, nominee := range found[:min(len(found), plansAtOnce)] {
		if nominee.since.IsZero() {
			nominee.since = now
		}
		nominee.planned = now
		pods = append(pods, nominee.pod)
	}
	return pods
}

// PlanSoon has the next attempt make a plan for a pod that Unplanned has returned, without a pause. It returns false if the pod has been
// without a plan for too long.
func (n *Nominations) PlanSoon(pod types.UID, now time.Time) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	nominee := n.nominees[pod]
	if nominee == nil || now.Sub(nominee.since) > UndecidedFor {
		return false
	}
	nominee.planned = time.Time{}
	return true
}

// forgetTry has the next attempt make a plan for a pod that Unplanned has returned, without a pause.
func (n *Nominations) forgetTry(pod types.UID) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if nominee := n.nominees[pod]; nominee != nil {
		nominee.since, nominee.planned = time.Time{}, time.Time{}
	}
}

// Of returns the nomination of a pod, nil if it has none.
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

// Against returns the nominations whose devices a pod must not take: those of other pods of the same or a higher
// priority, as with everything that kube-scheduler keeps for nominated pods. Pods of other schedulers count only if
// their priority is higher.
func (n *Nominations) Against(pod *v1.Pod, priority int32, now time.Time) []*Nomination {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var against []*Nomination
	group := GroupOf(pod)
	for uid, nomination := range n.byPod {
		enough := priority
		if !nomination.Until.IsZero() && now.After(nomination.Until) {
			continue
		}
		if nomination.Theirs {
			enough = priority + 1
		}
		if uid != pod.UID && nomination.Priority >= enough && (group == "" || nomination.Group != group) {
			against = append(against, nomination)
		}
	}
	// The usage that they make is kept as long as they are the same, in the same order.
	slices.SortFunc(against, func(a, b *Nomination) int { return cmp.Compare(a.Pod, b.Pod) })
	return against
}

// DropGroup does the same as Drop for the other pods of a pod's group.
func (n *Nominations) DropGroup(pod *v1.Pod) (freed ledger.Freed) {
	for _, nomination := range n.OfGroup(pod) {
		freed = freed.And(n.Drop(nomination.Pod))
	}
	return freed
}

// OfGroup returns the nominations of the other pods of a pod's group.
func (n *Nominations) OfGroup(pod *v1.Pod) (all []*Nomination) {
	group := GroupOf(pod)
	if group == "" {
		return nil
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for uid, nomination := range n.byPod {
		if uid != pod.UID && nomination.Group == group {
			all = append(all, nomination)
		}
	}
	slices.SortFunc(all, func(a, b *Nomination) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// GroupOf returns "namespace/name" of a pod's PodGroup, of the API or of scheduler-plugins, "" if it has none.
func GroupOf(pod *v1.Pod) string {
	if name := dra.PodGroupName(pod); name != "" {
		return pod.Namespace + "/" + name
	}
	return crd.KeyOf(pod)
}

// Changed handles an event about a pod: before and after are the API server's versions, nil if there was none. The
// nomination ends if the pod is bound or has ended, or is nominated for another node or for none. Changed returns
// the devices that were kept for it.
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
	if waits := after.Spec.NodeName == "" && after.DeletionTimestamp == nil && !dra.HasEnded(after); !waits {
		delete(n.nominees, after.UID)
		return freed.And(n.drop(after.UID))
	}
	if after.Status.NominatedNodeName == "" {
		delete(n.nominees, after.UID)
	} else if known := n.nominees[after.UID]; known == nil || known.pod.Status.NominatedNodeName != after.Status.NominatedNodeName {
		n.nominees[after.UID] = &nominee{pod: after}
	} else {
		known.pod = after // It may be known by now not to fit.
	}
	// The event may be late, and concern an earlier nomination.
	if nomination := n.byPod[after.UID]; nomination != nil && before != nil && after.Status.NominatedNodeName != nomination.Node &&
		before.Status.NominatedNodeName == nomination.Node {
		return freed.And(n.drop(after.UID))
	}
	return freed
}

// planAgain removes the pause before the next try to make plans, if the event says that a pod with devices leaves or
// is gone. Plans may be possible now, and other pods must not take the devices first.
func (n *Nominations) planAgain(before, after *v1.Pod) {
	if before == nil || !mayHoldDevices(before) || after != nil && after.UID == before.UID && isGoing(after) == isGoing(before) {
		return
	}
	for _, nominee := range n.nominees {
		nominee.planned = time.Time{}
	}
}

// isGoing reports whether a pod is being deleted or has ended.
func isGoing(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil || dra.HasEnded(pod) }

// planned returns the devices of a nomination's plan.
func planned(nomination *Nomination) ledger.Freed {
	if nomination == nil {
		return nil
	}
	return ledger.DevicesOf(nomination.kept()...)
}

// Leaving returns the victims of a nomination that are being deleted and not gone yet.
func (h *Holders) Leaving(nomination *Nomination) []*v1.Pod {
	var now []*v1.Pod
	for _, pod := range nomination.Victims {
		if latest := h.Claims.Pod(pod.Namespace, pod.Name); latest != nil && latest.UID == pod.UID {
			now = append(now, latest)
		}
	}
	return Leaving(now)
}

// overdue limits how long to wait for a pod after the end of its grace period: its node may be dead.
const overdue = time.Minute

// Leaving returns the pods that are being deleted and not gone yet.
func Leaving(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		// DeletionTimestamp includes the grace period.
		return pod.DeletionTimestamp == nil || dra.HasEnded(pod) || time.Since(pod.DeletionTimestamp.Time) > overdue
	})
}
