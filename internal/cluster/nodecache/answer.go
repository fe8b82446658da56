package nodecache

import (
	"encoding/binary"
	"sort"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Answer is the known answer to a question. It is safe for concurrent use. It remains usable when
// the index moves on, and then shows the newer state.
type Answer struct {
	index *Index
	key   key
	bytes int // as accounted for by the index
	// names maps nodes to their numbers; nil before any node was looked at.
	names *directory
	// results holds the results of nodes that were looked at, by number of the node. having counts
	// those that may have devices.
	results map[int32]result
	having  int
	// complete is set if all nodes were looked at since their last change.
	complete bool
	// ranking holds the rated nodes, cheapest first, and sorted by number if they cost the same.
	ranking []ranked
	// changed lists the nodes to look at again because they changed. stale lists the nodes that
	// were rated with an earlier version, cheapest first: costs of different versions cannot be
	// compared, so these nodes are not in ranking until they are rated again. An entry only counts
	// if result.queue names its list.
	changed, stale []int32
	version        uint64
	// position is the position in the log of the index that the answer is up to date with.
	position uint64
	// cursor is the number at which the search for unknown nodes continues.
	cursor int
	// turn is the offset at which Best begins among nodes of equal cost.
	turn int
	// everywhere is set if all nodes count, see Question.WithoutDevices. free is set while nodes without
	// devices, which cost nothing, are added before others.
	everywhere, free bool
	// consolidates is as in Question.
	consolidates bool
	// shared is set, instead of results and the fields that belong to it, if the task could use
	// devices that several nodes reach.
	shared *shared
}

// IsShared reports whether the task could use devices that several nodes reach, or whether that is
// unknown because there is no answer. The costs of devices are unknown then.
func (a *Answer) IsShared() bool { return a == nil || a.shared != nil }

// result holds the findings about a node for a task.
type result struct {
	value allocator.Value
	seen  uint64 // time of the look, by the clock of the directory
	state state
	rated bool // the node has devices and room for the pod, and value is their cost
	queue queue
}

// Memory of an answer without results, and of one result in results and ranking.
const (
	answerBytes = 512
	resultBytes = 112
)

// state is the known state of the devices on a node.
type state uint8

const (
	unknown   state = iota // the node changed since it was looked at
	lacking                // there was no solution at some moment during Find
	certain                // the node has devices
	uncertain              // it is unknown whether the node has devices
)

func (s state) mayHave() bool { return s == certain || s == uncertain }

// queue names the list in which a node waits to be looked at again.
type queue uint8

const (
	nowhere queue = iota
	inStale
	inChanged
)

func newAnswer(x *Index, of key) *Answer { return &Answer{index: x, key: of} }

// Has reports whether a node is known to have devices. False may mean that this is unknown.
func (a *Answer) Has(node string) bool {
	if a.shared != nil {
		return a.hasTied(node)
	}
	result, known := a.at(node)
	return known && result.state == certain
}

func (a *Answer) hasTied(node string) bool {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	id, known := a.names.ids[node]
	if !known {
		return false
	}
	g := a.shared.of[id]
	return g != nil && g.state == certain
}

// Value returns the cost of the devices on a node, and whether it is known.
func (a *Answer) Value(node string) (allocator.Value, bool) {
	result, known := a.at(node)
	return result.value, known && result.rated
}

func (a *Answer) at(node string) (result, bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	id, known := a.names.ids[node]
	if !known {
		return result{}, false
	}
	p, known := a.results[id]
	return p, known
}

// Names returns the nodes that have devices, or might have. It fails if they are more than most, or
// if not all nodes were looked at. On all other nodes there was no solution at some moment during
// Find.
func (a *Answer) Names(most int) (names sets.Set[string], ok bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	if !a.complete || a.having > most || a.shared != nil && a.shared.having > most {
		return nil, false
	}
	names = make(sets.Set[string], a.having)
	if a.shared != nil {
		for id, g := range a.shared.of {
			if g.state.mayHave() {
				names.Insert(a.names.names[id])
			}
		}
	}
	for id, p := range a.results {
		if p.state.mayHave() {
			names.Insert(a.names.names[id])
		}
	}
	return names, true
}

// Best returns the cheapest of the nodes that are known to have devices and room for the pod, and
// that the caller accepts. It returns at least enough of them if possible, with all nodes of equal
// cost, but no more than most. If too many cost the same, it returns different ones each time. It returns
// none if the pod would wait for its devices on all of them, which takes minutes, while an expression is still being evaluated for
// another one.
func (a *Answer) Best(enough, most int, accept func(node string) bool) sets.Set[string] {
	inDoubt := sync.OnceValue(func() bool { return a.isInDoubt(accept) })
	return a.best(enough, most, accept, func(value allocator.Value) bool { return value.NotReady == 0 || !inDoubt() })
}

// isInDoubt reports whether an expression is still being evaluated for a node that the caller accepts. Other nodes without a result,
// where the search failed, are not looked at again until they change.
func (a *Answer) isInDoubt(accept func(node string) bool) bool {
	for id, p := range a.results {
		if p.state == uncertain && p.queue == inChanged && accept(a.names.names[id]) {
			return true
		}
	}
	return false
}

// BestReady is Best for the nodes where the pod need not wait for its devices to get ready.
func (a *Answer) BestReady(enough, most int, accept func(node string) bool) sets.Set[string] {
	return a.best(enough, most, accept, func(value allocator.Value) bool { return value.NotReady == 0 })
}

// best implements Best for the nodes up to the first one whose value is not good.
func (a *Answer) best(enough, most int, accept func(node string) bool, good func(allocator.Value) bool) sets.Set[string] {
	a.index.mutex.Lock()
	defer a.index.mutex.Unlock()
	names := make(sets.Set[string], enough)
	for from := 0; from < len(a.ranking) && len(names) < enough && good(a.ranking[from].value); {
		least := a.ranking[from].value
		equals := a.ranking[from:]
		equals = equals[:sort.Search(len(equals), func(i int) bool { return equals[i].value.Compare(least) > 0 })]
		from += len(equals)
		first := 0
		if len(equals) > most-len(names) {
			first = a.turn % len(equals)
			a.turn += most - len(names)
		}
		for i := range equals {
			if name := a.names.names[equals[(first+i)%len(equals)].id]; accept(name) {
				names.Insert(name)
			}
			if len(names) == most {
				return names
			}
		}
	}
	return names
}

func appendPod(b []byte, pod noderesources.Resources) []byte {
	b = binary.AppendVarint(append(b, 0), pod.MilliCPU)
	return binary.AppendVarint(b, pod.Memory)
}
