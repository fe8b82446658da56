// Package noderesources tracks the CPU, memory and number of pods that nodes have room for, as of the
// scheduler's snapshot. The cost of following the snapshot depends only on its changes.
package noderesources

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Resources is the room for pods on a node, or the room that a pod takes. The room of a node may be
// negative, because a node can be overcommitted.
type Resources struct {
	MilliCPU int64
	Memory   int64 // bytes
	Pods     int
	// Since is when the node's oldest pod started, in seconds of Unix time; InUse if none has started yet, and 0 if the
	// node could be removed at once. Pods that belong to the node do not count.
	Since int64
}

// InUse is the Resources.Since of a node whose pods have not started yet.
const InUse = math.MaxInt64

// Holds reports whether a pod that takes the given room fits in. Resources that the pod does not
// ask for may be overcommitted, as in NodeResourcesFit.
func (r Resources) Holds(pod Resources) bool {
	return (pod.MilliCPU == 0 || pod.MilliCPU <= r.MilliCPU) && (pod.Memory == 0 || pod.Memory <= r.Memory) && pod.Pods <= r.Pods
}

// Plus returns the sum of both but for Since, which stays.
func (r Resources) Plus(more Resources) Resources {
	r.MilliCPU, r.Memory, r.Pods = r.MilliCPU+more.MilliCPU, r.Memory+more.Memory, r.Pods+more.Pods
	return r
}

// Minus returns what is left without the other, but for Since, which stays.
func (r Resources) Minus(less Resources) Resources {
	return r.Plus(Resources{MilliCPU: -less.MilliCPU, Memory: -less.Memory, Pods: -less.Pods})
}

// Of returns the room that a pod takes of its node.
func Of(pod *v1.Pod) Resources {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	return Resources{MilliCPU: quantity.MilliValue(*requests.Cpu()), Memory: quantity.Value(*requests.Memory()), Pods: 1}
}

// Mebibytes returns the memory in MiB, rounded up.
func (r Resources) Mebibytes() int64 { return (r.Memory + mebibyte - 1) / mebibyte }

const mebibyte = 1 << 20

// On returns the free room on a node.
func On(node fwk.NodeInfo) Resources {
	most, taken := node.GetAllocatable(), node.GetRequested()
	return Resources{
		MilliCPU: most.GetMilliCPU() - taken.GetMilliCPU(),
		Memory:   most.GetMemory() - taken.GetMemory(),
		Pods:     most.GetAllowedPodNumber() - len(node.GetPods()),
		Since:    since(node.GetPods()),
	}
}

// Devices finds the devices of nodes. It is called under a lock and must not call back.
type Devices interface {
	// IsLocal reports whether a node has devices of its own.
	IsLocal(node string) bool
}

// Free follows the scheduler's snapshot. The zero value knows no nodes. It is safe for concurrent
// use.
type Free struct {
	// Changed records the nodes whose room changed.
	Changed inventory.Changes[string]
	// Devices finds the nodes with devices of their own, for Beside; nil means that no node has
	// any. It must be set before use.
	Devices Devices

	mutex sync.RWMutex
	// seen holds the nodes in the order of the snapshot, which stays the same while no node is
	// added or deleted.
	seen   []seen
	byName map[string]*known
	// taken is the sum over all nodes in byName.
	taken requested
}

// seen is a node of the snapshot with the generation that was last looked at.
type seen struct {
	node       fwk.NodeInfo
	generation int64
	tentative  bool
}

type known struct {
	room       Resources
	generation int64
	// settled is the room when the snapshot was not tentative. unsettled is set if it was tentative at this generation.
	settled   Resources
	unsettled bool
	taken     requested
	// left is the room of pods that have ended since then, the last one at leftAt. most is that of the node without pods: pods that the snapshot
	// never had may have ended as well.
	left, most Resources
	leftAt     time.Time
}

// leftFor limits the time for which a pod that has ended counts before the snapshot shows it: the snapshot may have shown it already.
const leftFor = 5 * time.Second

// PodChanged handles an event about a pod: before and after are the API server's versions, nil if there was none. It notes that the pod has
// ended on its node: only the next attempt of any pod takes the snapshot that shows it.
func (r *Free) PodChanged(before, after *v1.Pod) {
	if before == nil || podutil.IsPodTerminal(before) || after != nil && !podutil.IsPodTerminal(after) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	k := r.byName[before.Spec.NodeName]
	if k == nil {
		return
	}
	takes, now := Of(before), time.Now()
	if now.Sub(k.leftAt) >= leftFor {
		k.left = Resources{}
	}
	k.left, k.leftAt = k.left.Plus(takes), now
}

// Follow takes over the changes of the snapshot, which has these nodes. They may be a subset of the
// cluster's. A snapshot is tentative in the dry run of a preemption for a group: it has the pods of the group on the nodes where they
// may be, and lacks those that may be evicted for it.
func (r *Free) Follow(nodes []fwk.NodeInfo, tentative bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.byName == nil || len(r.byName) > 2*len(nodes)+forgetAfter {
		r.byName, r.seen, r.taken = make(map[string]*known, len(nodes)), nil, requested{} // Most of them no longer exist.
	}
	for i, node := range nodes {
		now := seen{node, node.GetGeneration(), tentative}
		switch {
		case i == len(r.seen):
			r.seen = append(r.seen, now)
		case r.seen[i] == now:
			continue
		default:
			r.seen[i] = now
		}
		r.look(node, now.generation, tentative)
	}
	clear(r.seen[len(nodes):])
	r.seen = r.seen[:len(nodes)]
}

// forgetAfter is the number of deleted nodes that may always be kept.
const forgetAfter = 1000

// look updates a node unless its generation is known.
func (r *Free) look(node fwk.NodeInfo, generation int64, tentative bool) {
	name := node.Node().Name
	k := r.byName[name]
	if k != nil && k.generation == generation && (tentative || !k.unsettled) {
		return
	}
	room, isNew := On(node), k == nil
	if isNew {
		k = &known{}
		r.byName[name] = k
	}
	r.takes(k, node)
	k.generation = generation
	if k.unsettled = tentative; isNew || !tentative {
		most := node.GetAllocatable()
		k.settled, k.left = room, Resources{}
		k.most = Resources{MilliCPU: most.GetMilliCPU(), Memory: most.GetMemory(), Pods: most.GetAllowedPodNumber()}
	}
	if isNew || k.room != room {
		k.room = room
		r.Changed.Add(name)
	}
}

// At returns the free room on a node, and whether it is known.
func (r *Free) At(node string) (Resources, bool) {
	k, found := r.find(node)
	return k.room, found
}

// Settled returns the free room on a node as of the last snapshot that was not tentative, with that of pods that have ended since, and
// whether it is known.
func (r *Free) Settled(node string) (Resources, bool) {
	k, found := r.find(node)
	if time.Since(k.leftAt) < leftFor {
		room := k.settled.Plus(k.left)
		room.MilliCPU, room.Memory, room.Pods = min(room.MilliCPU, k.most.MilliCPU), min(room.Memory, k.most.Memory), min(room.Pods, k.most.Pods)
		return room, found
	}
	return k.settled, found
}

// find returns what is known of a node, and whether anything is.
func (r *Free) find(node string) (known, bool) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if k := r.byName[node]; k != nil {
		return *k, true
	}
	return known{}, false
}

// Nodes returns the names of all known nodes; some may no longer exist.
func (r *Free) Nodes() []string {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return slices.Collect(maps.Keys(r.byName))
}

// Len returns the number of known nodes.
func (r *Free) Len() int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return len(r.byName)
}
