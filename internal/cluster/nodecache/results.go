package nodecache

import (
	"hash/maphash"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

var seed = maphash.MakeSeed()

// begin resets the answer. Different questions begin with different nodes.
func (a *Answer) begin(names *directory) {
	a.names, a.results, a.having = names, make(map[int32]result), 0
	a.ranking, a.changed, a.stale, a.complete = nil, nil, nil, false
	a.free = a.everywhere && !a.consolidates
	a.cursor = int(maphash.Bytes(seed, a.key[:]) % uint64(max(1, len(names.names))))
}

// follow marks the results that are outdated because the cluster or the measure of costs changed.
func (a *Answer) follow(q *Question) {
	log := &a.index.log
	changes, end, complete := log.Since(a.position)
	a.position = end
	switch {
	case a.names != a.index.names:
		a.begin(a.index.names)
	case !complete || len(changes) > len(a.results):
		for id, p := range a.results {
			a.followOne(id, a.names.changed[id] > p.seen, a.names.resized[id] > p.seen, q)
		}
	default:
		for _, c := range changes {
			if c.pool == (inventory.PoolID{}) {
				a.followOne(c.id, !c.resized, c.resized, q)
			}
		}
	}
	if a.version != q.Version {
		a.version = q.Version
		a.setStale()
	}
}

// followOne processes a change of a node, if the answer has a result for it.
func (a *Answer) followOne(id int32, changed, resized bool, q *Question) {
	p, known := a.results[id]
	switch {
	case !known:
	case !a.counts(id):
		a.remove(id)
	case changed:
		a.setUnrated(id)
		a.setState(id, unknown)
		a.lookAgain(id)
	case resized && !a.names.isLocal[id] && !a.consolidates:
		a.resizeFree(id, q)
	case resized && p.state.mayHave() && q.Rate != nil:
		a.setUnrated(id) // Its devices did not change.
		if room, known := a.index.rooms.At(a.names.names[id]); !known || room.Holds(q.Pod) {
			a.lookAgain(id)
		}
	}
}

// lookAgain queues a node to be looked at again.
func (a *Answer) lookAgain(id int32) {
	p := a.results[id]
	if p.queue != inChanged {
		p.queue = inChanged
		a.results[id] = p
		a.changed = append(a.changed, id)
	}
}

// setStale queues all rated nodes to be rated again, cheapest first.
func (a *Answer) setStale() {
	before := slices.DeleteFunc(a.stale, func(id int32) bool { return a.results[id].queue != inStale })
	stale, free := make([]int32, 0, len(a.ranking)+len(before)), a.ranking[:0]
	for i := range a.ranking {
		id := a.ranking[i].id
		if a.everywhere && !a.names.isLocal[id] && !a.consolidates {
			free = append(free, a.ranking[i]) // It costs nothing by any measure.
			continue
		}
		p := a.results[id]
		p.rated, p.queue = false, max(p.queue, inStale)
		a.results[id] = p
		stale = append(stale, id)
	}
	a.ranking, a.stale = free, append(stale, before...)
}

// isDue reports whether there are nodes that could be looked at.
func (a *Answer) isDue() bool {
	return len(a.changed) > 0 || len(a.stale) > 0 || !a.knowsAll()
}

// knowsAll reports whether all nodes that count were looked at, some of them possibly before their
// last change.
func (a *Answer) knowsAll() bool {
	if a.everywhere {
		return len(a.results) >= len(a.names.names)
	}
	return len(a.results) >= a.names.local
}

// counts reports whether a node counts: in most answers only nodes with pools do.
func (a *Answer) counts(id int32) bool { return a.everywhere || a.names.isLocal[id] }

// again returns the next nodes with outdated results, up to a limit: first those that changed, then
// those to be rated again.
func (a *Answer) again(most int) (ids []int32) {
	return a.pop(a.pop(nil, &a.changed, inChanged, most), &a.stale, inStale, most)
}

// more adds nodes that were never looked at, up to a limit. If accepts is not nil, it only adds
// accepted nodes.
func (a *Answer) more(ids []int32, most int, accepts func(node string) bool) []int32 {
	if a.knowsAll() {
		return ids
	}
	if found := a.moreFree(ids, most, accepts); len(found) > len(ids) {
		return found
	}
	if found := a.moreUsed(ids, most, accepts); len(found) > len(ids) {
		return found
	}
	return a.unknown(ids, most, func(id int32) bool {
		return a.counts(id) && (accepts == nil || accepts(a.names.names[id]))
	})
}

// moreFree is more for nodes without devices alone.
func (a *Answer) moreFree(ids []int32, most int, accepts func(node string) bool) []int32 {
	if !a.free {
		return ids
	}
	ids = a.unknown(ids, most, func(id int32) bool {
		return !a.names.isLocal[id] && (accepts == nil || accepts(a.names.names[id]))
	})
	if accepts == nil { // Otherwise the next pod may accept others.
		a.free = len(ids) == most
	}
	return ids
}

// moreUsed is more for nodes in use alone.
func (a *Answer) moreUsed(ids []int32, most int, accepts func(node string) bool) []int32 {
	if !a.consolidates {
		return ids
	}
	return a.unknown(ids, most, func(id int32) bool {
		room, known := a.index.rooms.At(a.names.names[id])
		return known && room.Since != 0 && a.counts(id) && (accepts == nil || accepts(a.names.names[id]))
	})
}

// unknown adds nodes that were never looked at and that are wanted, up to a limit.
func (a *Answer) unknown(ids []int32, most int, wanted func(id int32) bool) []int32 {
	nodes := len(a.names.names)
	for i, from := 0, a.cursor; i < nodes && len(ids) < most; i++ {
		id := int32((from + i) % nodes)
		if _, known := a.results[id]; known || !wanted(id) {
			continue
		}
		ids = append(ids, id)
		a.cursor = int(id) + 1
	}
	return ids
}

// pop moves nodes from a queue to the end of ids, until ids has the given length.
func (a *Answer) pop(ids []int32, from *[]int32, name queue, most int) []int32 {
	list := *from
	for len(list) > 0 && len(ids) < most {
		id := list[0]
		list = list[1:]
		if p, known := a.results[id]; known && p.queue == name {
			p.queue = nowhere
			a.results[id] = p
			ids = append(ids, id)
		}
	}
	*from = list
	return ids
}

// take stores the results of nodes, and returns the nodes without a result because an expression is
// still being evaluated.
func (a *Answer) take(looks []look) (pending []int32) {
	anew := len(looks) > workers && len(looks) > len(a.ranking)/8
	for _, l := range looks {
		if l.pending {
			pending = append(pending, l.id)
		}
		if !anew {
			a.setUnrated(l.id)
		}
		a.put(l.id, l.result)
		if l.result.rated && !anew {
			a.rank(l.id, l.result.value)
		}
	}
	if anew {
		a.rankAll()
	}
	return pending
}

// put replaces the result of a node. The ranking stays unchanged.
func (a *Answer) put(id int32, p result) {
	if before, known := a.results[id]; known {
		a.count(before.state, -1)
		p.queue = before.queue
	}
	a.count(p.state, 1)
	a.results[id] = p
}

func (a *Answer) setState(id int32, s state) {
	p := a.results[id]
	p.state = s
	a.put(id, p)
}

// remove drops the result of a node.
func (a *Answer) remove(id int32) {
	a.setUnrated(id)
	a.count(a.results[id].state, -1)
	delete(a.results, id)
}

func (a *Answer) count(s state, n int) {
	if s.mayHave() {
		a.having += n
	}
}
