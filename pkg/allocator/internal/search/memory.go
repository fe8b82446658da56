package search

import (
	"sync"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// searches pools searches for reuse: a search runs for every pod and node, and needs similar memory each time.
var searches = sync.Pool{New: func() any { return new(Search) }}

// memory is the reusable memory of a search besides its own fields.
type memory struct {
	words   []uint64
	bits    bitset.Arena
	numbers []int
	sets    []bitset.Set
	flow    flow
	demands []demand
	key     []byte
	members []uint64
	// For improvement.choicesFrom.
	last, before []int
	room         room
}

// takeSearch returns a search without traces of its last use.
func takeSearch(t *task.Task, view NodeView, straight bool) *Search {
	s := searches.Get().(*Search)
	s.Task, s.view = t, view
	s.steps, s.unpruned, s.turnedBack, s.gaveUp, s.prospects = 0, false, false, false, prospects{}
	s.goesStraight, s.judging = straight, nil
	s.sharing, s.compatibility, s.sharable = nil, nil, false
	s.refused, s.underivable, s.doubted = nil, nil, nil
	s.classes.reset(len(view.Pools))
	s.failed.Reset()

	words := 0
	for _, pool := range view.Pools {
		words += bitset.Words(len(pool.Devices))
	}
	s.memory.words = Resized(s.memory.words, words*setsOf(t, straight))
	s.memory.bits = s.memory.words
	s.memory.numbers = Resized(s.memory.numbers, len(t.Requests())+t.Slots())
	s.count, s.chosen = s.memory.numbers[:len(t.Requests())], s.memory.numbers[len(t.Requests()):]
	s.table = Resized(s.table, len(t.Kinds())*len(view.Pools))
	s.pools = Kept(s.pools, len(view.Pools))
	s.constraints = Kept(s.constraints, t.Constraints())
	s.placed = Emptied(s.placed, len(t.Claims()))
	if t.WantsAll() {
		s.wanted = Emptied(s.wanted, len(t.Requests()))
	}
	s.taken.reset(t, view.Pools, &s.memory)
	return s
}

// Release returns the memory of the search for reuse. The search must not be used any more.
func (s *Search) Release() {
	s.Task, s.view, s.ctx, s.allowance = nil, NodeView{}, nil, Allowance{}
	clear(s.table)
	for i := range s.pools {
		s.pools[i].release()
	}
	searches.Put(s)
}

// setsOf returns the number of sets that a search needs for each pool: the candidates of each kind of
// request, the devices taken by each claim, and the devices taken by any claim.
func setsOf(t *task.Task, straight bool) int {
	sets := len(t.Kinds()) + 1
	if straight {
		sets += 2 * len(t.Kinds()) // See selectLater.
	}
	if tellsClaimsApart(t) {
		sets += len(t.Claims())
	}
	return sets
}
