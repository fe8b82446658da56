// Package nodecache knows which nodes have devices for tasks that come again and
// again, such as those of pods from one template, and what it would cost to take them there.
// It follows what changes instead of looking at each node for each pod.
package nodecache

import (
	"context"
	"errors"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

const (
	// fewestAnswers and maxAnswers bound how many questions are followed, those asked last:
	// in between it is as many as have maxPlaces nodes in all, which take 36 bytes each.
	fewestAnswers = 16
	maxAnswers    = 512
	maxPlaces     = 1 << 20
	// fewNodes is the default of Index.FewNodes: kube-scheduler would have them all filtered as well.
	fewNodes = 100
	// workers look at nodes at the same time if there are many.
	workers = 16
)

// Question is what is asked about nodes.
type Question struct {
	Task *allocator.Task
	// Pod is what the pod takes of the node besides devices.
	Pod noderoom.Room
	// Rate looks whether a node with some room has devices, and what taking them costs. It has to
	// be safe for concurrent use. nil if nobody wants to know what they cost.
	Rate func(ctx context.Context, site allocator.Site, room noderoom.Room) (Verdict, error)
	// By tells apart what costs are measured by, and Version how: with another version costs
	// change a little, on all nodes.
	By      string
	Version uint64
}

// Verdict is what was found on a node.
type Verdict struct {
	Fits   bool
	GaveUp bool // nobody knows whether it fits
	// Value of the devices, if it fits: smaller is better.
	Value allocator.Value
}

// key is the same for questions that have the same answers.
func (q *Question) key() string {
	b := q.Task.AppendKey(nil)
	return string(appendPod(append(append(b, 0), q.By...), q.Pod))
}

// Index finds nodes that can do for a task. It is safe for concurrent use.
type Index struct {
	// FewNodes are looked at for any task, more only for tasks that come again.
	FewNodes int

	inventory *inventory.Store
	ledger    *ledger.Ledger
	rooms     *noderoom.Rooms
	// node returns a node, nil if it is not known (yet).
	node func(name string) *v1.Node
	// nodesChanged has the nodes of which something changed that can matter.
	nodesChanged inventory.Changes[string]

	// mutex is held for reading while an answer is looked up, otherwise for writing.
	mutex sync.RWMutex
	known *lru.Cache // *Answer, by key of the question
	names *directory
}

// New returns an index that follows an inventory, a ledger, and the room on nodes.
func New(store *inventory.Store, usage *ledger.Ledger, rooms *noderoom.Rooms, node func(string) *v1.Node) *Index {
	return &Index{FewNodes: fewNodes, inventory: store, ledger: usage, rooms: rooms, node: node, known: lru.New(maxAnswers), names: newDirectory()}
}

// NodeChanged must be called for each node that is new or gone, or has other labels or
// features, after the function given to New returns the new state.
func (x *Index) NodeChanged(name string) { x.nodesChanged.Add(name) }

// Find brings the answer to a question up to date. It returns nil if nothing is known: the
// first time that anybody asks, unless there are few nodes, because looking at all nodes pays off
// only for tasks that come again; if pools could matter that are not for one node alone; and if the task
// needs no devices, so that nodes without pools would do as well.
func (x *Index) Find(ctx context.Context, q *Question) *Answer {
	if !q.Task.NeedsDevices() {
		return nil
	}
	if x.MayShare(ctx, q.Task) {
		return nil
	}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	a, known := x.answer(q)
	if !known && x.hasMany() {
		return nil
	}
	if !x.update(ctx, a, q) {
		x.known.Remove(a.key)
		return nil
	}
	return a
}

// MayShare reports whether pools could matter to a task that are not for one node alone.
func (x *Index) MayShare(ctx context.Context, task *allocator.Task) bool {
	for _, id := range x.inventory.SharedPools() {
		if pool := x.inventory.Pool(id); pool != nil && task.Interested(ctx, pool.Everywhere()) {
			return true
		}
	}
	return false
}

// hasMany reports whether more than FewNodes have devices.
func (x *Index) hasMany() bool {
	n := 0
	for range x.inventory.LocalNodes() {
		if n++; n > x.FewNodes {
			return true
		}
	}
	return false
}

// answer returns the answer to a question, and whether it was known before.
func (x *Index) answer(q *Question) (a *Answer, known bool) {
	key := q.key()
	if answer, found := x.known.Get(key); found {
		return answer.(*Answer), true
	}
	most := max(fewestAnswers, min(maxAnswers, maxPlaces/max(1, len(x.names.names))))
	for x.known.Len() >= most {
		x.known.RemoveOldest()
	}
	a = &Answer{index: x, key: key}
	x.known.Add(key, a)
	return a, false
}

// update looks at what changed since the answer was given. It reports whether the context
// lasted that long.
func (x *Index) update(ctx context.Context, a *Answer, q *Question) bool {
	names, all := x.outdated(a)
	if all {
		x.names = x.names.without(len(names))
		a.begin(x.names)
	}
	devices := a.idsOf(names)
	a.pending = a.pending[:0]
	rooms := x.resized(a, q, all)
	if a.version != q.Version {
		a.version = q.Version
		a.setStale()
	}
	devices = append(devices, a.nextStale()...)
	looks := x.look(ctx, a, q, compact(append(devices, rooms...)))
	if ctx.Err() != nil {
		return false
	}
	a.take(looks)
	return true
}

// outdated returns the nodes whose devices are to be looked at again, and moves the answer's
// positions to the end of the logs. all is set if these are all nodes that there are.
func (x *Index) outdated(a *Answer) (names []string, all bool) {
	published, inventoryEnd, complete := x.inventory.Changed.Since(a.inventory)
	pools, ledgerEnd, alsoComplete := x.ledger.Changed.Since(a.ledger)
	nodes, nodesEnd, allComplete := x.nodesChanged.Since(a.changed)
	a.inventory, a.ledger, a.changed = inventoryEnd, ledgerEnd, nodesEnd
	if a.names == nil || !complete || !alsoComplete || !allComplete {
		return slices.Collect(x.inventory.LocalNodes()), true
	}
	names = nodes
	for _, id := range a.pending {
		names = append(names, a.names.names[id])
	}
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
	return names, false
}

// resized returns the nodes that have devices and another amount of room, if that can matter.
func (x *Index) resized(a *Answer, q *Question, all bool) []int32 {
	names, end, complete := x.rooms.Changed.Since(a.rooms)
	a.rooms = end
	if all {
		return nil // They are looked at anyway.
	}
	if !complete {
		return a.withDevices()
	}
	var ids []int32
	for _, name := range names {
		id, has := a.names.ids[name]
		if !has || int(id) >= len(a.places) || a.places[id].state == lacking {
			continue
		}
		if room, known := x.rooms.At(name); known && !room.Holds(q.Pod) {
			a.setUnrated(id) // Its devices are the same.
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// look looks at nodes.
func (x *Index) look(ctx context.Context, a *Answer, q *Question, ids []int32) []look {
	looks := make([]look, len(ids))
	one := func(i int) { looks[i] = x.lookAt(ctx, a.names.names[ids[i]], ids[i], q) }
	if len(ids) < 2*workers {
		for i := range ids {
			one(i)
		}
		return looks
	}
	workqueue.ParallelizeUntil(ctx, workers, len(ids), one, workqueue.WithChunkSize(8))
	return looks
}

// look is what was found on a node.
type look struct {
	id      int32
	place   place
	pending bool
}

// lookAt looks whether a node has devices, and what they cost. Whatever keeps the question
// from being answered is for the scheduler to meet on that node.
func (x *Index) lookAt(ctx context.Context, name string, id int32, q *Question) look {
	l := look{id: id, place: place{state: uncertain}}
	node := x.node(name)
	if node == nil {
		return l
	}
	site := allocator.Site{Node: node, Pools: x.inventory.OnNode(node), Usage: x.ledger}
	room, hasRoom := x.rooms.At(name)
	hasRoom = hasRoom && room.Holds(q.Pod) && q.Rate != nil
	var verdict Verdict
	var err error
	if hasRoom {
		verdict, err = q.Rate(ctx, site, room)
	} else {
		verdict, err = check(ctx, q.Task, site)
	}
	switch {
	case err != nil:
		l.pending = errors.Is(err, selector.ErrPending)
	case verdict.Fits:
		l.place = place{state: certain, rated: hasRoom, value: verdict.Value}
	case !verdict.GaveUp:
		l.place.state = lacking
	}
	return l
}

// check looks whether a node has devices.
func check(ctx context.Context, task *allocator.Task, site allocator.Site) (Verdict, error) {
	outcome, err := task.Check(ctx, site)
	if err != nil {
		return Verdict{}, err
	}
	defer outcome.Release()
	return Verdict{Fits: outcome.Fits(), GaveUp: outcome.GaveUp}, nil
}
