package nodecache

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// workers is the number of goroutines that look at nodes if there are many.
const workers = 16

// look is the result of a look at a node.
type look struct {
	id      int32
	result  result
	pending bool
}

// look looks at the given nodes.
func (x *Index) look(ctx context.Context, a *Answer, q *Question, ids []int32) []look {
	looks, now := make([]look, len(ids)), a.names.clock
	one := func(i int) {
		if name := a.names.names[ids[i]]; a.everywhere {
			looks[i] = x.lookAtRoom(ctx, name, q)
		} else {
			looks[i] = x.lookAt(ctx, name, x.inventory.OwnPools, q)
		}
		looks[i].id, looks[i].result.seen = ids[i], now
	}
	if len(ids) < 2*workers {
		for i := range ids {
			one(i)
		}
		return looks
	}
	workqueue.ParallelizeUntil(ctx, workers, len(ids), one, workqueue.WithChunkSize(8))
	return looks
}

// lookAt checks whether a node has devices in some pools, and what they cost. After an error the
// node counts as uncertain, so that the scheduler meets the error on that node.
func (x *Index) lookAt(ctx context.Context, name string, pools func(*v1.Node) []*inventory.NodePool, q *Question) look {
	l := look{result: result{state: uncertain}}
	node := x.node(name)
	if node == nil {
		return l
	}
	site := allocator.NodeView{Node: node, Pools: pools(node), Usage: x.ledger}
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
		l.result = result{state: certain, rated: hasRoom, value: verdict.Value}
	case !verdict.GaveUp:
		l.result.state = lacking
	}
	return l
}

// check checks whether a node has devices.
func check(ctx context.Context, task *allocator.Task, site allocator.NodeView) (Verdict, error) {
	outcome, err := task.Check(ctx, site)
	if err != nil {
		return Verdict{}, err
	}
	defer outcome.Release()
	return Verdict{Fits: outcome.Fits(), GaveUp: outcome.GaveUp}, nil
}
