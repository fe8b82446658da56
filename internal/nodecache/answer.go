package nodecache

import (
	"encoding/binary"
	"sort"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Answer is what is known about a question. It is safe for concurrent use and stays of use
// when the index moves on: it then says what is known by that time.
type Answer struct {
	index *Index
	key   key
	bytes int // as accounted for by the index
	// names says what the numbers of nodes are; nil before anything was looked at.
	names *directory
	// places has what is known, by number of the node: nodes that are not in there were never looked at. having is how many
	// of them may have devices.
	places map[int32]place
	having int
	// complete is set if all nodes were looked at since something changed there.
	complete bool
	// ranking are the nodes that are rated, the cheapest first, and by number if they cost the same.
	ranking []ranked
	// changed are those that are to be looked at again because something changed there. stale are those that were rated with
	// an earlier version, the cheapest first: costs of different versions cannot be compared, and so they are not in the
	// ranking until they are rated again. What place.queue says otherwise of is not in a queue any more.
	changed, stale []int32
	version        uint64
	// position is the one in the log of the index up to which the answer is right.
	position uint64
	// cursor is from where nodes are looked for that are not known.
	cursor int
	// turn is from where equals are named, see Best.
	turn int
	// tied is set for a task that could use devices which several nodes reach, instead of places and all that belongs to them.
	tied *tied
}

// IsTied reports whether the task could use devices which several nodes reach, or whether that is not known because there is no
// answer. What devices cost is not known then.
func (a *Answer) IsTied() bool { return a == nil || a.tied != nil }

// place is what a node has for a task.
type place struct {
	value allocator.Value
	seen  uint64 // when it was looked at, by the clock of the directory
	state state
	rated bool // it has devices and room for the pod, and value is what they cost
	queue queue
}

// What an answer takes without any places, and what a place takes in places and ranking.
const (
	answerBytes = 512
	placeBytes  = 112
)

// state is what is known of the devices on a node.
type state uint8

const (
	unknown   state = iota // something changed since it was looked at
	lacking                // there was no solution at a moment during Find
	certain                // it has devices
	uncertain              // that cannot be said
)

func (s state) mayHave() bool { return s == certain || s == uncertain }

// queue is where a node waits to be looked at again.
type queue uint8

const (
	nowhere queue = iota
	inStale
	inChanged
)

func newAnswer(x *Index, of key) *Answer { return &Answer{index: x, key: of} }

// Has reports whether a node is known to have devices. False may mean that this cannot
// be said.
func (a *Answer) Has(node string) bool {
	if a.tied != nil {
		return a.hasTied(node)
	}
	place, known := a.at(node)
	return known && place.state == certain
}

func (a *Answer) hasTied(node string) bool {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	id, known := a.names.ids[node]
	if !known {
		return false
	}
	g := a.tied.of[id]
	return g != nil && g.state == certain
}

// Value returns what the devices cost on a node, and whether that is known.
func (a *Answer) Value(node string) (allocator.Value, bool) {
	place, known := a.at(node)
	return place.value, known && place.rated
}

func (a *Answer) at(node string) (place, bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	id, known := a.names.ids[node]
	if !known {
		return place{}, false
	}
	p, known := a.places[id]
	return p, known
}

// Names returns the nodes that have devices, or might have, unless they are more than
// some number, or not all nodes were looked at. On all other nodes there was no solution at a moment during Find.
func (a *Answer) Names(most int) (names sets.Set[string], ok bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	if !a.complete || a.having > most || a.tied != nil && a.tied.having > most {
		return nil, false
	}
	names = make(sets.Set[string], a.having)
	if a.tied != nil {
		for id, g := range a.tied.of {
			if g.state.mayHave() {
				names.Insert(a.names.names[id])
			}
		}
	}
	for id, p := range a.places {
		if p.state.mayHave() {
			names.Insert(a.names.names[id])
		}
	}
	return names, true
}

// Best returns the cheapest of the nodes that are known to have devices and room for the pod, and that the
// caller accepts: enough of them and all that cost the same, but no more than some number. Of too
// many equals it names others each time.
func (a *Answer) Best(enough, most int, accept func(node string) bool) sets.Set[string] {
	return a.best(enough, most, accept, func(allocator.Value) bool { return true })
}

// BestReady is Best of the nodes where the pod would not have to wait for its devices to get ready.
func (a *Answer) BestReady(enough, most int, accept func(node string) bool) sets.Set[string] {
	return a.best(enough, most, accept, func(value allocator.Value) bool { return value.NotReady == 0 })
}

// best is Best of the nodes up to the first one whose value is not good.
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

func appendPod(b []byte, pod noderoom.Room) []byte {
	b = binary.AppendVarint(append(b, 0), pod.MilliCPU)
	return binary.AppendVarint(b, pod.Memory)
}
