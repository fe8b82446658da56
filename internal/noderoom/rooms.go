// Package noderoom knows how much CPU, memory and how many pods there is room for on nodes, as of
// the scheduler's snapshot. It follows the snapshot at the cost of what changed in it.
package noderoom

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Room is what is free for pods on a node, or what a pod takes of it. What is free may be
// negative: a node can be overcommitted.
type Room struct {
	MilliCPU int64
	Memory   int64 // bytes
	Pods     int
}

// Holds reports whether a pod that takes so much fits in. What a pod does not ask for it may
// take from a node that has none left, as NodeResourcesFit has it.
func (r Room) Holds(pod Room) bool {
	return (pod.MilliCPU == 0 || pod.MilliCPU <= r.MilliCPU) && (pod.Memory == 0 || pod.Memory <= r.Memory) && pod.Pods <= r.Pods
}

// Of returns what a pod takes of its node.
func Of(pod *v1.Pod) Room {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	return Room{MilliCPU: amount.MilliValue(*requests.Cpu()), Memory: amount.Value(*requests.Memory()), Pods: 1}
}

// Mebibytes is the memory that a pod takes in whole MiB, no less than what it is.
func (r Room) Mebibytes() int64 { return (r.Memory + mebibyte - 1) / mebibyte }

const mebibyte = 1 << 20

// On returns what is free on a node.
func On(node fwk.NodeInfo) Room {
	most, taken := node.GetAllocatable(), node.GetRequested()
	return Room{
		MilliCPU: most.GetMilliCPU() - taken.GetMilliCPU(),
		Memory:   most.GetMemory() - taken.GetMemory(),
		Pods:     most.GetAllowedPodNumber() - len(node.GetPods()),
	}
}

// Rooms follows the snapshot. The zero value knows no nodes. It is safe for concurrent use.
type Rooms struct {
	// Changed has the nodes on which there is another amount of room.
	Changed inventory.Changes[string]
	// HasDevices reports whether a node has devices of its own, for Beside; nil means that none has.
	// It is called under a lock, and must not call back. It must be set before use.
	HasDevices func(node string) bool

	mutex sync.RWMutex
	// seen has the nodes in the order of the snapshot, which stays the same for as long as no
	// node comes or goes.
	seen   []seen
	byName map[string]*known
	// taken is the sum over all nodes in byName.
	taken requested
}

// seen is a node of the snapshot and its generation when it was looked at.
type seen struct {
	node       fwk.NodeInfo
	generation int64
}

type known struct {
	room       Room
	generation int64
	taken      requested
}

// Follow takes over what changed in the snapshot, which has these nodes. They may be some of
// the cluster's.
func (r *Rooms) Follow(nodes []fwk.NodeInfo) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.byName == nil || len(r.byName) > 2*len(nodes)+forgetAfter {
		r.byName, r.seen, r.taken = make(map[string]*known, len(nodes)), nil, requested{} // Most of them are gone.
	}
	for i, node := range nodes {
		now := seen{node, node.GetGeneration()}
		switch {
		case i == len(r.seen):
			r.seen = append(r.seen, now)
		case r.seen[i] == now:
			continue
		default:
			r.seen[i] = now
		}
		r.look(node, now.generation)
	}
	clear(r.seen[len(nodes):])
	r.seen = r.seen[:len(nodes)]
}

// forgetAfter is how many nodes that are gone are kept in any case.
const forgetAfter = 1000

// look takes over a node unless it is known as it is.
func (r *Rooms) look(node fwk.NodeInfo, generation int64) {
	name := node.Node().Name
	k := r.byName[name]
	if k != nil && k.generation == generation {
		return
	}
	room, isNew := On(node), k == nil
	if isNew {
		k = &known{}
		r.byName[name] = k
	}
	r.takes(k, node)
	k.generation = generation
	if isNew || k.room != room {
		k.room = room
		r.Changed.Add(name)
	}
}

// At returns what is free on a node, and whether that is known.
func (r *Rooms) At(node string) (Room, bool) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	k := r.byName[node]
	if k == nil {
		return Room{}, false
	}
	return k.room, true
}

// Nodes returns the names of all nodes that are known, some of which may be gone.
func (r *Rooms) Nodes() []string {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return slices.Collect(maps.Keys(r.byName))
}

// Len returns how many nodes are known.
func (r *Rooms) Len() int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return len(r.byName)
}
