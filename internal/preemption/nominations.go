package preemption

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Nomination is what a pod is to get on the node that it is nominated for, as soon as others have gone.
type Nomination struct {
	Pod      types.UID
	Priority int32
	// Node is status.nominatedNodeName.
	Node string
	// Plan has what the pod's claims are to get. Pods of lower priority leave that alone.
	Plan []ledger.Use
	// Victims are the pods that have to go for it.
	Victims []*v1.Pod
}

// Nominations are those of all profiles of a scheduler, each from the eviction of the first victim until the pod is
// bound, gone, or not nominated any more. They are safe for concurrent use.
type Nominations struct {
	mutex sync.Mutex
	byPod map[types.UID]*Nomination
}

// NewNominations returns an empty list.
func NewNominations() *Nominations { return &Nominations{byPod: make(map[types.UID]*Nomination)} }

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
	before := n.byPod[pod]
	delete(n.byPod, pod)
	return planned(before)
}

// Of returns the nomination of a pod, nil if there is none.
func (n *Nominations) Of(pod types.UID) *Nomination {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.byPod[pod]
}

// Against returns what a pod of some priority has to leave alone: what is planned for other pods of the same or a
// higher priority, as for all that kube-scheduler keeps for nominated pods.
func (n *Nominations) Against(pod types.UID, priority int32) []ledger.Use {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var held []ledger.Use
	for uid, nomination := range n.byPod {
		if uid != pod && nomination.Priority >= priority {
			held = append(held, nomination.Plan...)
		}
	}
	return held
}

// Changed ends the nomination of a pod that is bound or has ended, or that is nominated for another node or for none.
// It returns the devices that it held for that.
func (n *Nominations) Changed(before, after *v1.Pod) ledger.Freed {
	nomination := n.Of(after.UID)
	switch {
	case nomination == nil:
		return nil
	case after.Spec.NodeName != "" || hasEnded(after) || after.DeletionTimestamp != nil:
	case before != nil && before.Status.NominatedNodeName != after.Status.NominatedNodeName && after.Status.NominatedNodeName != nomination.Node:
	default:
		return nil
	}
	return n.Drop(after.UID)
}

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

// Leaving returns those of the pods that are being deleted and not gone yet.
func Leaving(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return pod.DeletionTimestamp == nil || hasEnded(pod) })
}
