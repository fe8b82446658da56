package domain

import (
	"cmp"
	"slices"
)

// Room is the number of pods of a gang that a domain can take, without other pods of the gang in it.
type Room struct {
	Name string
	Pods int
}

// Choose returns the domains to fill with a number of pods one after the other, as indices into rooms: as few as possible.
// While no single domain has room for the remaining pods, the largest is next; then the smallest that suffices. If all
// domains together do not suffice, these are all domains with any room, the largest first. If domains share nodes, filling
// one reduces the room of others: call Choose again after each.
//
// Ties are decided by name. Domains without room are left out.
func Choose(rooms []Room, pods int) (chosen []int) {
	var candidates []int // by ascending room
	for i := range rooms {
		if rooms[i].Pods > 0 {
			candidates = append(candidates, i)
		}
	}
	slices.SortFunc(candidates, func(a, b int) int {
		return cmp.Or(cmp.Compare(rooms[a].Pods, rooms[b].Pods), cmp.Compare(rooms[a].Name, rooms[b].Name), cmp.Compare(a, b))
	})
	for left := pods; left > 0 && len(candidates) > 0; {
		next := firstWith(rooms, candidates, left)
		if next == len(candidates) {
			// None suffices: take the first of the largest ones.
			next = firstWith(rooms, candidates, rooms[candidates[next-1]].Pods)
		}
		chosen = append(chosen, candidates[next])
		left -= rooms[candidates[next]].Pods
		candidates = slices.Delete(candidates, next, next+1)
	}
	return chosen
}

// firstWith returns the position of the first candidate with room for the pods, or the number of
// candidates if there is none. Candidates must be sorted by ascending room.
func firstWith(rooms []Room, candidates []int, pods int) int {
	first, _ := slices.BinarySearchFunc(candidates, pods, func(i, pods int) int { return cmp.Compare(rooms[i].Pods, pods) })
	return first
}
