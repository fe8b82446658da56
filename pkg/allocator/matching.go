package allocator

// satisfiable reports whether the supplies can be handed out so that every need is
// met. It is a maximum flow from needs to supplies, found by augmenting paths: a
// need takes from a supply that has some left, or has another need move to another
// supply. A bit in supply.users says who can take from it.
func satisfiable(needs []int, supplies []supply) bool {
	m := matching{supplies: supplies, taken: make([][]int, len(needs)), left: make([]int, len(supplies))}
	for i := range supplies {
		m.left[i] = supplies[i].count
	}
	for need := range needs {
		m.taken[need] = make([]int, len(supplies))
	}
	for need, missing := range needs {
		for missing > 0 {
			m.visited = 0
			got := m.augment(need, missing)
			if got == 0 {
				return false
			}
			missing -= got
		}
	}
	return true
}

type matching struct {
	supplies []supply
	taken    [][]int // by need and supply
	left     []int   // by supply
	visited  uint64  // needs on the way
}

// augment finds up to want more devices for a need and returns how many it found.
func (m *matching) augment(need, want int) int {
	m.visited |= 1 << need
	for i := range m.supplies {
		if m.supplies[i].users&(1<<need) != 0 && m.left[i] > 0 {
			got := min(want, m.left[i])
			m.left[i] -= got
			m.taken[need][i] += got
			return got
		}
	}
	for i := range m.supplies {
		if m.supplies[i].users&(1<<need) == 0 {
			continue
		}
		for other := range m.taken {
			if m.visited&(1<<other) != 0 || m.taken[other][i] == 0 {
				continue
			}
			if got := m.augment(other, min(want, m.taken[other][i])); got > 0 {
				m.taken[other][i] -= got
				m.taken[need][i] += got
				return got
			}
		}
	}
	return 0
}
