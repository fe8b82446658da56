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

// Choose returns the domains to use for a number of pods, as indices into rooms.
//
// If the pods must share one domain, these are the domains to try, one after the other until the gang fits: all with
// room for the pods, those with the least room first, so that larger gaps stay whole for larger gangs.
//
// Otherwise these are the domains to fill one after the other: as few as possible. While no single
// domain has room for the remaining pods, the largest is next; then the smallest that suffices. If all
// domains together do not suffice, these are all domains with any room, the largest first. If domains
// share nodes, filling one reduces the room of others: call Choose again after each.
//
// Ties are decided by name. Domains without room are left out.
func Choose(rooms []Room, pods int, required bool) []int {
	var candidates []int
	for i := range rooms {
		if rooms[i].Pods > 0 {
			candidates = append(candidates, i)
		}
	}
	slices.SortFunc(candidates, func(a, b int) int {
		return cmp.Or(cmp.Compare(rooms[a].Pods, rooms[b].Pods), cmp.Compare(rooms[a].Name, rooms[b].Name), cmp.Compare(a, b))
	})
	if required {
		return candidates[firstWith(rooms, candidates, pods):]
	}
	return fill(rooms, candidates, pods)
}

// firstWith returns the position of the first candidate with room for the pods, or the number of
// candidates if there is none. Candidates must be sorted by ascending room.
func firstWith(rooms []Room, candidates []int, pods int) int {
	first, _ := slices.BinarySearchFunc(candidates, pods, func(i, pods int) int { return cmp.Compare(rooms[i].Pods, pods) })
	return first
}

// fill returns the domains to fill. Candidates must be sorted by ascending room; fill changes the slice.
func fill(rooms []Room, candidates []int, pods int) (chosen []int) {
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
