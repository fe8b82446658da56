package domain

import (
	"cmp"
	"slices"
)

// Room is how many pods of a gang a domain can take, beside nothing else of the gang.
type Room struct {
	Name string
	Pods int
}

// Choose returns the domains to use for a number of pods, as indices into rooms.
//
// If they have to be in one domain, these are the domains to try, one after the other until one does:
// all that have room for the pods, those with the least left over first, so that larger holes stay
// whole for larger gangs.
//
// Otherwise these are the domains to fill one after the other: as few as possible. While no single
// domain has room for the pods that are left, the largest is next; then the one in which they leave the
// least over. If all domains together do not suffice, these are all that have any room, the largest
// first. Where domains have nodes in common, what is left of the others is less than rooms say: choose
// again after each.
//
// Ties are decided by the name. Domains without room are left out.
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

// firstWith returns the position, among candidates by ascending room, of the first that has room for
// some pods; their number if none has.
func firstWith(rooms []Room, candidates []int, pods int) int {
	first, _ := slices.BinarySearchFunc(candidates, pods, func(i, pods int) int { return cmp.Compare(rooms[i].Pods, pods) })
	return first
}

// fill returns the domains to fill, of candidates by ascending room, which it changes.
func fill(rooms []Room, candidates []int, pods int) (chosen []int) {
	for left := pods; left > 0 && len(candidates) > 0; {
		next := firstWith(rooms, candidates, left)
		if next == len(candidates) {
			// None suffices: the largest, which is the first of those that are as large as the last.
			next = firstWith(rooms, candidates, rooms[candidates[next-1]].Pods)
		}
		chosen = append(chosen, candidates[next])
		left -= rooms[candidates[next]].Pods
		candidates = slices.Delete(candidates, next, next+1)
	}
	return chosen
}
