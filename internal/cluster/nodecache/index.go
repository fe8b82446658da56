// Package nodecache caches which nodes have devices for recurring tasks, for example of pods from
// one template, and the cost of the devices. It follows changes instead of looking at each node for
// each pod. It gets to know the nodes of a large cluster step by step: for one pod it looks at
// nodes until there is a choice, and for the next pod of its kind it looks at some more.
package nodecache

import (
	"context"
	"crypto/sha256"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// enough is the default of Index.Enough: kube-scheduler also looks for at least that many
	// feasible nodes.
	enough = 100
	// atOnce and growth are the defaults of Index.AtOnce and Index.Growth.
	atOnce, growth = 64, 16
	// bound limits the memory of all answers, in bytes; the least recently used are dropped.
	bound = 48 << 20
)

// Question is a question about nodes.
type Question struct {
	Task *allocator.Task
	// Pod is the room that the pod takes of the node, apart from devices.
	Pod noderesources.Resources
	// Rate determines whether a node with some room has devices, and what they cost. It must be
	// safe for concurrent use. It is nil if costs do not matter.
	Rate func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (Verdict, error)
	// By identifies the measure of costs, and Version its parameters: with another version costs
	// change slightly, on all nodes.
	By      string
	Version uint64
	// Accepts reports whether the pod may run on a node, apart from devices and room: the search
	// continues until enough accepted nodes have devices. nil accepts all nodes.
	Accepts func(node string) bool
	// All makes the index look at all nodes if the question is repeated.
	All bool
	// Own leaves out devices that several nodes reach.
	Own bool
	// WithoutDevices is set for a pod that takes no devices, with a task without claims. All nodes count
	// then, and those without devices of their own cost nothing. Rate and Accepts must be set.
	WithoutDevices bool
	// Consolidates is set if unused nodes cost more than all others, and nodes without devices cost something.
	Consolidates bool
}

// Verdict is the result of a look at a node.
type Verdict struct {
	Fits   bool
	GaveUp bool // it is unknown whether it fits
	// Value of the devices, if it fits: smaller is better.
	Value allocator.Value
}

// key returns the same value for questions with the same answer. It is a digest, because users
// choose the length of the expressions.
func (q *Question) key() key {
	b := q.Task.AppendKey(nil)
	if q.Own {
		b = append(b, 0)
	}
	if q.WithoutDevices {
		b = append(b, 1)
	}
	if q.Consolidates {
		b = append(b, 2)
	}
	return sha256.Sum256(appendPod(append(append(b, 0), q.By...), q.Pod))
}

// key identifies a question.
type key [sha256.Size]byte

// Index finds nodes that may fit a task. It is safe for concurrent use.
type Index struct {
	// Enough is the number of possible nodes for a pod at which the index stops looking. Growth is
	// the number of further nodes that it looks at for each later pod until it knows all. AtOnce
	// limits the nodes that it looks at in one step.
	Enough, Growth, AtOnce int

	inventory *inventory.Store
	ledger    *ledger.Ledger
	rooms     *noderesources.Free
	// node returns a node, nil if it is not known (yet).
	node func(name string) *v1.Node
	// nodesChanged records nodes with a relevant change.
	nodesChanged inventory.Changes[string]

	// mutex is held for reading while an answer is read, otherwise for writing.
	mutex sync.RWMutex
	known *lru.Cache // *Answer, by key of the question
	// bytes is the memory of all answers in known, and bound its limit.
	bytes, bound int
	names        *directory
	// Positions in the logs that names and log are up to date with.
	position struct{ inventory, ledger, nodes, rooms uint64 }
	// published counts the changes of pools that are not for one node alone.
	published uint64
	// log records the changes of nodes, by their numbers in names.
	log inventory.Changes[change]
}

// New returns an index that follows an inventory, a ledger, and the room on nodes.
func New(store *inventory.Store, usage *ledger.Ledger, rooms *noderesources.Free, node func(string) *v1.Node) *Index {
	x := &Index{Enough: enough, Growth: growth, AtOnce: atOnce, bound: bound, inventory: store, ledger: usage, rooms: rooms, node: node}
	x.known = lru.NewWithEvictionFunc(maxAnswers, func(_ lru.Key, answer any) { x.bytes -= answer.(*Answer).bytes })
	return x
}

// maxAnswers exceeds the number that fits in memory: lru.Cache needs a limit.
const maxAnswers = bound / answerBytes

// NodeChanged must be called for each node that is new or deleted, or has other labels or features,
// after the function given to New returns the new state.
func (x *Index) NodeChanged(name string) { x.nodesChanged.Add(name) }

// SetBound sets the limit of memory for all answers, in bytes; the least recently used are dropped.
func (x *Index) SetBound(bytes int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.bound = bytes
}

// Bytes returns the memory of all answers, in bytes.
func (x *Index) Bytes() int {
	x.mutex.RLock()
	defer x.mutex.RUnlock()
	return x.bytes
}

// Find updates the answer to a question until there is a choice of nodes. It returns nil in two
// cases. If the task needs no devices, nodes without pools fit as well, and the question does not say
// WithoutDevices. For a question with All in
// a large cluster, the first call returns nil, because looking at all nodes pays off only for tasks
// that recur.
func (x *Index) Find(ctx context.Context, q *Question) *Answer {
	if !q.Task.NeedsDevices() && !q.WithoutDevices {
		return nil
	}
	isShared := !q.Own && x.MayShare(ctx, q.Task)
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.follow()
	a, known := x.answer(q)
	if isShared != (a.shared != nil) { // Pools appeared or disappeared.
		a.begin(x.names)
		a.shared = nil
		if isShared {
			a.shared = newShared(x.published)
		}
	}
	if q.All && !known && len(x.names.names) > x.Enough {
		x.account(a)
		return nil
	}
	if isShared {
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

// SharedGetReady reports whether all pools that could matter to a task and are not for one node
// alone have devices with binding conditions, which must get ready first (KEP-5007): a node that
// needs none of these is better.
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

// MayShare reports whether pools that are not for one node alone could matter to a task.
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
	a.everywhere, a.consolidates = q.WithoutDevices, q.Consolidates
	x.known.Add(key, a)
	return a, false
}

// account updates the memory of an answer, and drops other answers if the total is too high.
func (x *Index) account(a *Answer) {
	x.bytes -= a.bytes
	a.bytes = answerBytes + resultBytes*len(a.results)
	if a.shared != nil {
		a.bytes += a.shared.bytes()
	}
	x.bytes += a.bytes
	for x.bytes > x.bound && x.known.Len() > 1 {
		x.known.RemoveOldest()
	}
}

// forget drops the answer, so that the next Find starts from scratch.
func (x *Index) forget(a *Answer) { x.known.Remove(a.key) }

// update looks at nodes until there are enough, and at some more that are unknown or changed.
func (x *Index) update(ctx context.Context, a *Answer, q *Question) {
	a.follow(q)
	if a.everywhere && !a.consolidates && a.hasFree(q) { // The other nodes cost more: they need not be up to date. But all get their turn that cost nothing.
		for _, id := range a.take(x.look(ctx, a, q, a.moreFree(nil, x.growth(), nil))) {
			a.lookAgain(id)
		}
		return
	}
	var undecided []int32
	for first := true; a.isDue(); first = false {
		isEnough := first && a.knowsAll() || x.hasEnough(a, q)
		if isEnough && !first {
			break
		}
		most := x.AtOnce
		if a.everywhere && isEnough {
			most = x.growth() // Most pods take no devices: none of them does much of the work.
		}
		ids := a.again(most)
		switch {
		case q.All:
			ids = a.more(ids, x.AtOnce, nil)
		case isEnough:
			ids = a.more(ids, x.growth(), nil)
		default:
			ids = a.more(ids, x.AtOnce, q.Accepts)
		}
		last := len(ids) == 0
		if last { // No more nodes accept this pod, but the next pod may run elsewhere.
			ids = a.more(ids, x.growth(), nil)
		}
		pending := a.take(x.look(ctx, a, q, ids))
		undecided = append(undecided, pending...)
		if last || len(pending) == len(ids) || ctx.Err() != nil {
			break // If all are pending, expressions take long, and other nodes would be pending, too.
		}
	}
	a.complete = len(a.changed) == 0 && a.knowsAll()
	for _, id := range undecided {
		a.lookAgain(id)
	}
}

func (x *Index) growth() int { return min(x.Growth, x.AtOnce) }

// hasEnough reports whether there is a choice of nodes. Nodes where the pod would wait for devices
// to get ready do not count as long as other nodes may have ready devices.
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
