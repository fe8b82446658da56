// Package candidates knows which nodes have devices for tasks that come again and
// again, such as those of pods from one template. It follows what changes instead of
// looking at each node for each pod.
package candidates

import (
	"container/list"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// maxTasks is how many different tasks are followed, those asked for last.
const maxTasks = 64

// Index finds candidates. It is safe for concurrent use.
type Index struct {
	inventory *inventory.Store
	ledger    *ledger.Ledger
	// node returns a node, nil if it is not known (yet).
	node func(name string) *v1.Node

	// nodesChanged has the nodes of which something changed that can matter.
	nodesChanged inventory.Changes[string]

	mutex sync.Mutex
	known map[string]*list.Element // to *entry, by key of the task
	order list.List                // those used last are in front
}

// entry is what is known about a task.
type entry struct {
	key string
	// nodes are those that have devices, or of which that cannot be said.
	nodes map[string]bool
	// Positions in the logs up to which nodes is right.
	inventory, ledger, changed uint64
}

// New returns an index that follows an inventory and a ledger.
func New(store *inventory.Store, usage *ledger.Ledger, node func(string) *v1.Node) *Index {
	return &Index{inventory: store, ledger: usage, node: node, known: make(map[string]*list.Element)}
}

// NodeChanged must be called for each node that is new or gone, or has other labels or
// features, after the function given to New returns the new state.
func (x *Index) NodeChanged(name string) { x.nodesChanged.Add(name) }

// Nodes returns the nodes that have devices for a task, or might have. On all other
// nodes there was no solution at a moment during the call. ok is false if nothing is
// known: the first time that anybody asks, because looking at all nodes pays off only
// for tasks that come again, and if pools could matter that are not for one node alone.
//
// The map is shared until the next call and must not be changed.
func (x *Index) Nodes(ctx context.Context, task *allocator.Task) (nodes map[string]bool, ok bool) {
	for _, id := range x.inventory.SharedPools() {
		if pool := x.inventory.Pool(id); pool != nil && task.Interested(ctx, pool.Everywhere()) {
			return nil, false
		}
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	e, known := x.entry(task)
	if !known {
		return nil, false
	}
	for _, name := range x.outdated(e) {
		if x.mayServe(ctx, task, name) {
			e.nodes[name] = true
		} else {
			delete(e.nodes, name)
		}
		if ctx.Err() != nil {
			x.forget(e)
			return nil, false
		}
	}
	return e.nodes, true
}

// entry returns the entry of a task, and whether it was known before.
func (x *Index) entry(task *allocator.Task) (e *entry, known bool) {
	key := task.AppendKey(nil)
	if element, found := x.known[string(key)]; found {
		x.order.MoveToFront(element)
		return element.Value.(*entry), true
	}
	e = &entry{key: string(key)}
	x.known[e.key] = x.order.PushFront(e)
	if len(x.known) > maxTasks {
		x.forget(x.order.Back().Value.(*entry))
	}
	return e, false
}

func (x *Index) forget(e *entry) {
	x.order.Remove(x.known[e.key])
	delete(x.known, e.key)
}

// outdated returns the nodes to look at again and moves the entry's positions to the
// end of the logs.
func (x *Index) outdated(e *entry) []string {
	names, inventoryEnd, complete := x.inventory.Changed.Since(e.inventory)
	pools, ledgerEnd, alsoComplete := x.ledger.Changed.Since(e.ledger)
	nodes, nodesEnd, allComplete := x.nodesChanged.Since(e.changed)
	e.inventory, e.ledger, e.changed = inventoryEnd, ledgerEnd, nodesEnd
	if e.nodes == nil || !complete || !alsoComplete || !allComplete {
		e.nodes = make(map[string]bool)
		names = names[:0]
		for name := range x.inventory.LocalNodes() {
			names = append(names, name)
		}
		return names
	}
	names = append(names, nodes...)
	for _, id := range pools {
		names = append(names, x.inventory.NodesOf(id)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mayServe reports whether a node has devices for the task. Whatever keeps the question
// from being answered is for the scheduler to meet on that node.
func (x *Index) mayServe(ctx context.Context, task *allocator.Task, name string) bool {
	node := x.node(name)
	if node == nil {
		return true
	}
	outcome, err := task.Check(ctx, allocator.Site{Node: node, Pools: x.inventory.OnNode(node), Usage: x.ledger})
	if err != nil {
		return true
	}
	fits := outcome.Fits() || outcome.GaveUp
	outcome.Release()
	return fits
}
