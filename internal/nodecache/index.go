// Package nodecache knows which nodes have devices for tasks that come again and
// again, such as those of pods from one template. It follows what changes instead of
// looking at each node for each pod.
package nodecache

import (
	"context"
	"errors"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// maxTasks is how many different tasks are followed, those asked for last.
const maxTasks = 64

// Index finds nodes that can do for a task. It is safe for concurrent use.
type Index struct {
	inventory *inventory.Store
	ledger    *ledger.Ledger
	// node returns a node, nil if it is not known (yet).
	node func(name string) *v1.Node

	// nodesChanged has the nodes of which something changed that can matter.
	nodesChanged inventory.Changes[string]

	// mutex is held for reading while an answer is looked up, otherwise for writing.
	mutex sync.RWMutex
	known *lru.Cache // *Answer, by key of the task
}

// Answer is what is known about a task. It is safe for concurrent use and stays of use
// when the index moves on: it then says what is known by that time.
type Answer struct {
	index *Index
	key   string
	// nodes are those that have devices (certain), or of which that cannot be said.
	nodes map[string]certainty
	// pending are those of which it cannot be said because a selector is still being
	// evaluated: they are looked at again.
	pending []string
	// Positions in the logs up to which nodes is right.
	inventory, ledger, changed uint64
}

type certainty bool

const (
	certain   certainty = true
	uncertain certainty = false
)

// Has reports whether a node is known to have devices. False may mean that this cannot
// be said.
func (a *Answer) Has(node string) bool {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	return a.nodes[node] == certain
}

// Names returns the nodes that have devices, or might have, unless they are more than
// some number. On all other nodes there was no solution at a moment during Find.
func (a *Answer) Names(most int) (names sets.Set[string], ok bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	if len(a.nodes) > most {
		return nil, false
	}
	return sets.KeySet(a.nodes), true
}

// New returns an index that follows an inventory and a ledger.
func New(store *inventory.Store, usage *ledger.Ledger, node func(string) *v1.Node) *Index {
	return &Index{inventory: store, ledger: usage, node: node, known: lru.New(maxTasks)}
}

// NodeChanged must be called for each node that is new or gone, or has other labels or
// features, after the function given to New returns the new state.
func (x *Index) NodeChanged(name string) { x.nodesChanged.Add(name) }

// Find brings what is known about a task up to date. It returns nil if nothing is: the
// first time that anybody asks, because looking at all nodes pays off only for tasks
// that come again; if pools could matter that are not for one node alone; and if the task
// needs no devices, so that nodes without pools would do as well.
func (x *Index) Find(ctx context.Context, task *allocator.Task) *Answer {
	if !task.NeedsDevices() {
		return nil
	}
	for _, id := range x.inventory.SharedPools() {
		if pool := x.inventory.Pool(id); pool != nil && task.Interested(ctx, pool.Everywhere()) {
			return nil
		}
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	a, known := x.answer(task)
	if !known {
		return nil
	}
	for _, name := range x.outdated(a) {
		fits, how, err := x.mayFit(ctx, task, name)
		if fits {
			a.nodes[name] = how
		} else {
			delete(a.nodes, name)
		}
		if errors.Is(err, selector.ErrPending) {
			a.pending = append(a.pending, name)
		}
		if ctx.Err() != nil {
			x.known.Remove(a.key)
			return nil
		}
	}
	return a
}

// answer returns the answer for a task, and whether it was known before.
func (x *Index) answer(task *allocator.Task) (a *Answer, known bool) {
	key := string(task.AppendKey(nil))
	if answer, found := x.known.Get(key); found {
		return answer.(*Answer), true
	}
	a = &Answer{index: x, key: key}
	x.known.Add(key, a)
	return a, false
}

// outdated returns the nodes to look at again and moves the answer's positions to the
// end of the logs.
func (x *Index) outdated(a *Answer) []string {
	published, inventoryEnd, complete := x.inventory.Changed.Since(a.inventory)
	pools, ledgerEnd, alsoComplete := x.ledger.Changed.Since(a.ledger)
	nodes, nodesEnd, allComplete := x.nodesChanged.Since(a.changed)
	a.inventory, a.ledger, a.changed = inventoryEnd, ledgerEnd, nodesEnd
	pending := a.pending
	a.pending = nil
	if a.nodes == nil || !complete || !alsoComplete || !allComplete {
		a.nodes = make(map[string]certainty)
		var names []string
		for name := range x.inventory.LocalNodes() {
			names = append(names, name)
		}
		return names
	}
	names := append(nodes, pending...)
	for _, change := range published {
		if change.Node != "" {
			names = append(names, change.Node)
		} else {
			pools = append(pools, change.Pool)
		}
	}
	slices.SortFunc(pools, inventory.PoolID.Compare)
	for _, id := range slices.Compact(pools) {
		names = append(names, x.inventory.NodesOf(id)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mayFit reports whether a node has devices for the task. Whatever keeps the question
// from being answered is for the scheduler to meet on that node; it is returned as well.
func (x *Index) mayFit(ctx context.Context, task *allocator.Task, name string) (bool, certainty, error) {
	node := x.node(name)
	if node == nil {
		return true, uncertain, nil
	}
	outcome, err := task.Check(ctx, allocator.Site{Node: node, Pools: x.inventory.OnNode(node), Usage: x.ledger})
	if err != nil {
		return true, uncertain, err
	}
	defer outcome.Release()
	return outcome.Fits() || outcome.GaveUp, certainty(outcome.Fits()), nil
}
