package search

import (
	"cmp"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// solution holds devices for all requests, those of each request in the driver's order.
type solution []chosenDevice

type chosenDevice struct {
	request *task.Request
	at      location
}

// solution returns the current placements as a solution.
func (s *Search) solution() solution {
	var list solution
	for _, placements := range s.placed {
		for p := range placements {
			list = append(list, chosenDevice{placements[p].request, placements[p].at})
		}
	}
	list.sort()
	return list
}

// sort sorts by request, and the devices of each request in the driver's order.
func (list solution) sort() {
	slices.SortStableFunc(list, func(a, b chosenDevice) int {
		return cmp.Or(cmp.Compare(a.request.ID, b.request.ID), a.at.compare(b.at))
	})
}

func (l location) compare(other location) int {
	return cmp.Or(cmp.Compare(l.pool, other.pool), cmp.Compare(l.device, other.device))
}

// isBefore reports whether a search in the driver's order meets this solution before another one
// with the same alternatives.
func (list solution) isBefore(other solution) bool {
	return slices.CompareFunc(list, other, func(a, b chosenDevice) int { return a.at.compare(b.at) }) < 0
}

// placements returns a copy of the current placements, by claim.
func (s *Search) placements() [][]placement {
	list := make([][]placement, len(s.placed))
	for claim := range list {
		list[claim] = slices.Clone(s.placed[claim])
	}
	return list
}

// clear removes all placements.
func (s *Search) clear() {
	for claim := len(s.placed) - 1; claim >= 0; claim-- {
		for n := len(s.placed[claim]); n > 0; n-- {
			s.unplace(s.placed[claim][n-1].request)
		}
	}
}

// put places a solution, or nothing if that is not possible.
func (s *Search) put(list solution) bool {
	for _, chosen := range list {
		if !chosen.request.All() && !s.hasRoom(chosen.request, chosen.at) {
			s.clear()
			return false
		}
		if placed, err := s.place(chosen.request, chosen.at); err != nil || placed != placedOK {
			s.clear()
			return false
		}
	}
	return true
}

// inOrder exchanges devices between requests of the same kind, so that they are in the driver's order. It
// changes nothing with admin access or shareable devices, so that no request gets a device twice.
func (s *Search) inOrder(list solution) solution {
	if s.HasAdmin() || slices.ContainsFunc(list, func(c chosenDevice) bool { return s.shared(c.at) }) {
		return list
	}
	dealt, byKind := slices.Clone(list), slices.Clone(list)
	slices.SortStableFunc(byKind, func(a, b chosenDevice) int {
		return cmp.Or(cmp.Compare(a.request.Kind, b.request.Kind), a.at.compare(b.at))
	})
	next := make([]int, len(s.Kinds())) // by kind: the first device that is left
	for n := len(byKind) - 1; n >= 0; n-- {
		next[byKind[n].request.Kind] = n
	}
	for n := range dealt {
		kind := dealt[n].request.Kind
		dealt[n].at = byKind[next[kind]].at
		next[kind]++
	}
	return dealt
}
