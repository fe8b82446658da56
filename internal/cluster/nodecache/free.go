package nodecache

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// enoughFree is the number of nodes that cost nothing at which a pod without devices needs no other
// nodes.
const enoughFree = 32

// lookAtRoom determines what a pod without devices costs on a node.
func (x *Index) lookAtRoom(ctx context.Context, name string, q *Question) look {
	node := x.node(name)
	if node == nil {
		return look{result: result{state: lacking}}
	}
	l := look{result: result{state: certain}}
	room, known := x.rooms.At(name)
	if !known || !room.Holds(q.Pod) {
		return l
	}
	pools := x.inventory.OwnPools(node)
	if len(pools) == 0 && !q.Consolidates {
		l.result.rated = true
		return l
	}
	verdict, err := q.Rate(ctx, allocator.NodeView{Node: node, Pools: pools, Usage: x.ledger}, room)
	l.result.rated, l.result.value = err == nil && verdict.Fits, verdict.Value
	return l
}

// resizeFree follows a change of the room on a node without devices, which costs nothing as long as it
// has room for the pod.
func (a *Answer) resizeFree(id int32, q *Question) {
	p := a.results[id]
	room, known := a.index.rooms.At(a.names.names[id])
	switch has := known && room.Holds(q.Pod) && p.state == certain; {
	case has && !p.rated:
		p.rated, p.value = true, allocator.Value{}
		a.results[id] = p
		a.rank(id, p.value)
	case !has:
		a.setUnrated(id)
	}
}

// hasFree reports whether enough nodes that the pod accepts cost nothing.
func (a *Answer) hasFree(q *Question) bool {
	missing := min(enoughFree, a.index.Enough)
	for i := range a.ranking {
		if missing == 0 || a.ranking[i].value != (allocator.Value{}) {
			break
		}
		if q.Accepts(a.names.names[a.ranking[i].id]) {
			missing--
		}
	}
	return missing == 0
}
