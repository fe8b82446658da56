package nodecache

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Answer is what is known about a question. It is safe for concurrent use and stays of use
// when the index moves on: it then says what is known by that time.
type Answer struct {
	index *Index
	key   string
	// names says what the numbers of nodes are; nil before anything was looked at.
	names *directory
	// places is indexed by number of the node, and having is how many of them may have devices.
	places []place
	having int
	// ranking are the nodes that are rated, the cheapest first, and by number if they cost the same.
	ranking []int32
	// stale are those that were rated with an earlier version, the cheapest first: costs of different
	// versions cannot be compared, and so they are not in the ranking until they are rated again.
	stale   []int32
	version uint64
	// pending are those of which it cannot be said whether they have devices because a selector
	// is still being evaluated: they are looked at again.
	pending []int32
	// Positions in the logs up to which the answer is right.
	inventory, ledger, changed, rooms uint64
	// turn is from where equals are named, see Best.
	turn int
}

// place is what a node has for a task.
type place struct {
	value allocator.Value
	state state
	rated bool // it has devices and room for the pod, and value is what they cost
}

// state is what is known of the devices on a node.
type state uint8

const (
	lacking   state = iota // there was no solution at a moment during Find
	certain                // it has devices
	uncertain              // that cannot be said
)

// staleAtOnce is how many nodes are rated anew with a question if there is another version, so that
// no pod has to wait until that is done for a large cluster.
const staleAtOnce = 512

// Has reports whether a node is known to have devices. False may mean that this cannot
// be said.
func (a *Answer) Has(node string) bool {
	place, known := a.at(node)
	return known && place.state == certain
}

// Value returns what the devices cost on a node, and whether that is known.
func (a *Answer) Value(node string) (allocator.Value, bool) {
	place, known := a.at(node)
	return place.value, known && place.rated
}

func (a *Answer) at(node string) (place, bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	if id, known := a.names.ids[node]; known && int(id) < len(a.places) {
		return a.places[id], true
	}
	return place{}, false
}

// Names returns the nodes that have devices, or might have, unless they are more than
// some number. On all other nodes there was no solution at a moment during Find.
func (a *Answer) Names(most int) (names sets.Set[string], ok bool) {
	a.index.mutex.RLock()
	defer a.index.mutex.RUnlock()
	if a.having > most {
		return nil, false
	}
	names = make(sets.Set[string], a.having)
	for id := range a.places {
		if a.places[id].state != lacking {
			names.Insert(a.names.names[id])
		}
	}
	return names, true
}

// Best returns the cheapest of the nodes that have devices and room for the pod, and that the
// caller accepts: enough of them and all that cost the same, but no more than some number. Of too
// many equals it names others each time.
func (a *Answer) Best(enough, most int, accept func(node string) bool) sets.Set[string] {
	a.index.mutex.Lock()
	defer a.index.mutex.Unlock()
	names := make(sets.Set[string], enough)
	for from := 0; from < len(a.ranking) && len(names) < enough; {
		least := a.places[a.ranking[from]].value
		equals := a.ranking[from:]
		equals = equals[:sort.Search(len(equals), func(i int) bool { return a.places[equals[i]].value.Compare(least) > 0 })]
		from += len(equals)
		first := 0
		if len(equals) > most-len(names) {
			first = a.turn % len(equals)
			a.turn += most - len(names)
		}
		for i := range equals {
			if name := a.names.names[equals[(first+i)%len(equals)]]; accept(name) {
				names.Insert(name)
			}
			if len(names) == most {
				return names
			}
		}
	}
	return names
}

// begin makes the answer one about nothing.
func (a *Answer) begin(names *directory) {
	a.names, a.places, a.having, a.ranking, a.stale, a.pending = names, nil, 0, nil, nil, nil
}

// idsOf returns the numbers of nodes.
func (a *Answer) idsOf(names []string) []int32 {
	ids := make([]int32, len(names))
	for i, name := range names {
		ids[i] = a.names.id(name)
	}
	if more := len(a.names.names) - len(a.places); more > 0 {
		a.places = append(a.places, make([]place, more)...)
	}
	return ids
}

// withDevices returns the nodes that may have devices.
func (a *Answer) withDevices() []int32 {
	var ids []int32
	for id := range a.places {
		if a.places[id].state != lacking {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// setStale has all nodes be rated again, the cheapest first.
func (a *Answer) setStale() {
	a.dropRated()
	a.stale = append(slices.Clone(a.ranking), a.stale...)
	a.ranking = a.ranking[:0]
	for _, id := range a.stale {
		a.places[id].rated = false
	}
}

// dropRated forgets that nodes are stale which were rated meanwhile, because something changed there.
func (a *Answer) dropRated() {
	a.stale = slices.DeleteFunc(a.stale, func(id int32) bool { return a.places[id].rated })
}

// nextStale returns the next nodes to be rated again.
func (a *Answer) nextStale() []int32 {
	a.dropRated()
	n := min(staleAtOnce, len(a.stale))
	next := a.stale[:n]
	a.stale = a.stale[n:]
	return next
}

// take takes over what was found on nodes.
func (a *Answer) take(looks []look) {
	anew := len(looks) > workers && len(looks) > len(a.ranking)/8
	for _, l := range looks {
		if l.pending {
			a.pending = append(a.pending, l.id)
		}
		before := a.places[l.id]
		if before.state != lacking {
			a.having--
		}
		if l.place.state != lacking {
			a.having++
		}
		switch {
		case anew:
			a.places[l.id] = l.place
		case before.rated && l.place.rated && before.value == l.place.value:
		default:
			a.setUnrated(l.id)
			a.places[l.id] = l.place
			a.rank(l.id)
		}
		a.places[l.id].state = l.place.state
	}
	if anew {
		a.rankAll()
	}
}

// compare orders nodes by what they cost.
func (a *Answer) compare(one, other int32) int {
	return cmp.Or(a.places[one].value.Compare(a.places[other].value), cmp.Compare(one, other))
}

// rankAll makes the ranking anew.
func (a *Answer) rankAll() {
	a.ranking = a.ranking[:0]
	for id := range a.places {
		if a.places[id].rated {
			a.ranking = append(a.ranking, int32(id))
		}
	}
	slices.SortFunc(a.ranking, a.compare)
}

// rank gives a node that is rated its place in the ranking.
func (a *Answer) rank(id int32) {
	if a.places[id].rated {
		at, _ := slices.BinarySearchFunc(a.ranking, id, a.compare)
		a.ranking = slices.Insert(a.ranking, at, id)
	}
}

// setUnrated takes a node out of the ranking, if it is in there.
func (a *Answer) setUnrated(id int32) {
	if a.places[id].rated {
		if at, found := slices.BinarySearchFunc(a.ranking, id, a.compare); found {
			a.ranking = slices.Delete(a.ranking, at, at+1)
		}
		a.places[id].rated = false
	}
}

// compact sorts numbers and drops those that are there twice.
func compact(ids []int32) []int32 {
	slices.Sort(ids)
	return slices.Compact(ids)
}

func appendPod(b []byte, pod noderoom.Room) []byte {
	b = binary.AppendVarint(append(b, 0), pod.MilliCPU)
	return binary.AppendVarint(b, pod.Memory)
}

// directory gives nodes numbers, so that what is known of them takes little memory.
type directory struct {
	ids   map[string]int32
	names []string
}

func newDirectory() *directory { return &directory{ids: make(map[string]int32)} }

// id returns the number of a node.
func (d *directory) id(name string) int32 {
	id, known := d.ids[name]
	if !known {
		id = int32(len(d.names))
		d.ids[name] = id
		d.names = append(d.names, name)
	}
	return id
}

// without returns a directory for a number of nodes: another one if most of those in this one
// are gone. Answers keep theirs until they begin anew.
func (d *directory) without(nodes int) *directory {
	if len(d.names) <= 2*nodes+1000 {
		return d
	}
	return newDirectory()
}
