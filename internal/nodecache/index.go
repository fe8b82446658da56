// Package nodecache knows which nodes have devices for tasks that come again and
// again, such as those of pods from one template, and what it would cost to take them there.
// It follows what changes instead of looking at each node for each pod, and gets to know the nodes of a
// large cluster bit by bit: a pod is looked for until there is a choice of nodes for it, and the next one
// of its kind adds some more.
package nodecache

import (
	"context"
	"crypto/sha256"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// enough is the default of Index.Enough: with fewer nodes kube-scheduler would not be content either.
	enough = 100
	// atOnce and growth are the defaults of Index.AtOnce and Index.Growth.
	atOnce, growth = 64, 16
	// bound is how many bytes all answers take, those asked last.
	bound = 48 << 20
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
	// Accepts reports whether the pod may run on a node, as far as devices and room do not decide: nodes with
	// devices are looked for until there are enough of these. nil if all nodes are as good.
	Accepts func(node string) bool
	// All has all nodes be looked at, if the question comes again.
	All bool
	// Own leaves out devices that several nodes reach.
	Own bool
}

// Verdict is what was found on a node.
type Verdict struct {
	Fits   bool
	GaveUp bool // nobody knows whether it fits
	// Value of the devices, if it fits: smaller is better.
	Value allocator.Value
}

// key is the same for questions that have the same answers: a digest, because users choose how long the expressions in it are.
func (q *Question) key() key {
	b := q.Task.AppendKey(nil)
	if q.Own {
		b = append(b, 0)
	}
	return sha256.Sum256(appendPod(append(append(b, 0), q.By...), q.Pod))
}

// key stands for a question.
type key [sha256.Size]byte

// Index finds nodes that can do for a task. It is safe for concurrent use.
type Index struct {
	// Enough is with how many nodes that a pod could have the index is content for the moment, and Growth how many more it
	// looks at for each pod after that until it knows all nodes. AtOnce is how many it looks at at a time, at most.
	Enough, Growth, AtOnce int

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
	// bytes is what all answers in known take, and bound how much that may be.
	bytes, bound int
	names        *directory
	// Positions in the logs up to which names and log are right.
	position struct{ inventory, ledger, nodes, rooms uint64 }
	// published is how often a pool changed that is not for one node alone.
	published uint64
	// log has what changed on which nodes, by their numbers in names.
	log inventory.Changes[change]
}

// New returns an index that follows an inventory, a ledger, and the room on nodes.
func New(store *inventory.Store, usage *ledger.Ledger, rooms *noderoom.Rooms, node func(string) *v1.Node) *Index {
	x := &Index{Enough: enough, Growth: growth, AtOnce: atOnce, bound: bound, inventory: store, ledger: usage, rooms: rooms, node: node}
	x.known = lru.NewWithEvictionFunc(maxAnswers, func(_ lru.Key, answer any) { x.bytes -= answer.(*Answer).bytes })
	return x
}

// maxAnswers is more than there is memory for: lru.Cache needs a number.
const maxAnswers = bound / answerBytes

// NodeChanged must be called for each node that is new or gone, or has other labels or
// features, after the function given to New returns the new state.
func (x *Index) NodeChanged(name string) { x.nodesChanged.Add(name) }

// SetBound changes how many bytes all answers take, those asked last.
func (x *Index) SetBound(bytes int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.bound = bytes
}

// Bytes returns how many bytes they take.
func (x *Index) Bytes() int {
	x.mutex.RLock()
	defer x.mutex.RUnlock()
	return x.bytes
}

// Find brings the answer to a question up to date, as far as there is to be a choice of nodes. It returns nil if
// nothing is known: if the task needs no devices, so that nodes without pools would do as well; and for who wants to know all nodes
// of a large cluster the first time that anybody asks, because looking at all of them pays off only for tasks that come again.
func (x *Index) Find(ctx context.Context, q *Question) *Answer {
	if !q.Task.NeedsDevices() {
		return nil
	}
	isTied := !q.Own && x.MayShare(ctx, q.Task)
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.follow()
	a, known := x.answer(q)
	if isTied != (a.tied != nil) { // Pools came or went.
		a.begin(x.names)
		a.tied = nil
		if isTied {
			a.tied = newTied(x.published)
		}
	}
	if q.All && !known && len(x.names.names) > x.Enough {
		x.account(a)
		return nil
	}
	if isTied {
		x.updateTied(ctx, a, q)
	} else {
		x.update(ctx, a, q)
	}
	if ctx.Err() != nil {
		x.forget(a)
		return nil
	}
	x.account(a)
	return a
}

// SharedGetReady reports whether of the pools that could matter to a task, all that are not for one node alone have devices
// that have to be made ready first (KEP-5007): a node that needs none of these is better.
func (x *Index) SharedGetReady(ctx context.Context, task *allocator.Task) bool {
	for _, id := range x.inventory.SharedPools() {
		if pool := x.inventory.Pool(id); pool != nil {
			if all := pool.Everywhere(); !all.BindingConditions && task.Interested(ctx, all) {
				return false
			}
		}
	}
	return true
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

// answer returns the answer to a question, and whether it was known before.
func (x *Index) answer(q *Question) (a *Answer, known bool) {
	key := q.key()
	if answer, found := x.known.Get(key); found {
		return answer.(*Answer), true
	}
	a = newAnswer(x, key)
	x.known.Add(key, a)
	return a, false
}

// account notes how much memory an answer takes now, and forgets others if that is too much.
func (x *Index) account(a *Answer) {
	x.bytes -= a.bytes
	a.bytes = answerBytes + placeBytes*len(a.places)
	if a.tied != nil {
		a.bytes += a.tied.bytes()
	}
	x.bytes += a.bytes
	for x.bytes > x.bound && x.known.Len() > 1 {
		x.known.RemoveOldest()
	}
}

// forget has the answer be found anew the next time.
func (x *Index) forget(a *Answer) { x.known.Remove(a.key) }

// update looks at nodes until there are enough of them, and at some more that are not known yet or not any more.
func (x *Index) update(ctx context.Context, a *Answer, q *Question) {
	a.follow(q)
	var undecided []int32
	for first := true; a.isDue(); first = false {
		isEnough := first && a.knowsAll() || x.hasEnough(a, q)
		if isEnough && !first {
			break
		}
		ids := a.again(x.AtOnce)
		switch {
		case q.All:
			ids = a.more(ids, x.AtOnce, nil)
		case isEnough:
			ids = a.more(ids, x.growth(), nil)
		default:
			ids = a.more(ids, x.AtOnce, q.Accepts)
		}
		last := len(ids) == 0
		if last { // Of those that the pod may run on, there are no more: the next pod may run elsewhere.
			ids = a.more(ids, x.growth(), nil)
		}
		pending := a.take(x.look(ctx, a, q, ids))
		undecided = append(undecided, pending...)
		if last || len(pending) == len(ids) || ctx.Err() != nil {
			break // If all are pending, expressions take long: nobody knows more about the others.
		}
	}
	a.complete = len(a.changed) == 0 && a.knowsAll()
	for _, id := range undecided {
		a.lookAgain(id)
	}
}

func (x *Index) growth() int { return min(x.Growth, x.AtOnce) }

// hasEnough reports whether there is a choice of nodes. Nodes where the pod would wait for devices to get ready are none as
// long as others may have some that are ready.
func (x *Index) hasEnough(a *Answer, q *Question) bool {
	switch {
	case q.All:
		return false
	case q.Accepts == nil:
		return a.having >= x.Enough
	case len(a.ranking) < x.Enough:
		return false
	}
	missing := x.Enough
	for i := range a.ranking {
		if missing == 0 {
			break
		}
		if a.ranking[i].value.NotReady == 0 && q.Accepts(a.names.names[a.ranking[i].id]) {
			missing--
		}
	}
	return missing == 0
}
