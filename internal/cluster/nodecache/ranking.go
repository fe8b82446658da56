package nodecache

import (
	"cmp"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// ranked is a rated node with the cost of its devices.
type ranked struct {
	value allocator.Value
	id    int32
}

// compare orders nodes by cost, then by number.
func (r ranked) compare(other ranked) int {
	return cmp.Or(r.value.Compare(other.value), cmp.Compare(r.id, other.id))
}

// rankAll rebuilds the ranking.
func (a *Answer) rankAll() {
	a.ranking = a.ranking[:0]
	for id, p := range a.results {
		if p.rated {
			a.ranking = append(a.ranking, ranked{p.value, id})
		}
	}
	slices.SortFunc(a.ranking, ranked.compare)
}

// rank inserts a node into the ranking.
func (a *Answer) rank(id int32, value allocator.Value) {
	r := ranked{value, id}
	at, _ := slices.BinarySearchFunc(a.ranking, r, ranked.compare)
	a.ranking = slices.Insert(a.ranking, at, r)
}

// setUnrated removes a node from the ranking, if it is rated.
func (a *Answer) setUnrated(id int32) {
	p := a.results[id]
	if !p.rated {
		return
	}
	if at, found := slices.BinarySearchFunc(a.ranking, ranked{p.value, id}, ranked.compare); found {
		a.ranking = slices.Delete(a.ranking, at, at+1)
	}
	p.rated = false
	a.results[id] = p
}
