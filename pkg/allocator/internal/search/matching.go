package search

// A Supply is a number of devices that the same rows can use.
type Supply struct {
	Users uint64 // a bit for each row
	Count int
}

// A Matching assigns supplies to rows. It is a maximum flow, found by augmenting paths: a row takes from a
// supply with devices left, or makes another row move to another supply. Its memory is reused.
type Matching struct {
	supplies []Supply
	taken    []int // by row and supply
	left     []int // by supply
	rows     int
	visited  uint64 // rows on the way
}

// Satisfiable reports whether the supplies suffice for the needs of all rows. surplus is the number of
// devices among the supplies that are not available at the same time as the others.
func (m *Matching) Satisfiable(needs []int, supplies []Supply, surplus int) bool {
	total, available := 0, -surplus
	for _, need := range needs {
		total += max(need, 0)
	}
	for i := range supplies {
		available += supplies[i].Count
	}
	if total > available {
		return false
	}
	m.supplies, m.rows = supplies, len(needs)
	m.taken, m.left = Resized(m.taken, len(needs)*len(supplies)), Resized(m.left, len(supplies))
	for i := range supplies {
		m.left[i] = supplies[i].Count
	}
	for i := range needs {
		for missing := needs[i]; missing > 0; {
			m.visited = 0
			got := m.augment(i, missing)
			if got == 0 {
				return false
			}
			missing -= got
		}
	}
	return true
}

// augment finds up to want more devices for a row and returns the number it found.
func (m *Matching) augment(row, want int) int {
	m.visited |= 1 << row
	for i := range m.supplies {
		if m.supplies[i].Users&(1<<row) != 0 && m.left[i] > 0 {
			got := min(want, m.left[i])
			m.left[i] -= got
			*m.takenBy(row, i) += got
			return got
		}
	}
	for i := range m.supplies {
		if m.supplies[i].Users&(1<<row) == 0 {
			continue
		}
		for other := range m.rows {
			if m.visited&(1<<other) != 0 || *m.takenBy(other, i) == 0 {
				continue
			}
			if got := m.augment(other, min(want, *m.takenBy(other, i))); got > 0 {
				*m.takenBy(other, i) -= got
				*m.takenBy(row, i) += got
				return got
			}
		}
	}
	return 0
}

func (m *Matching) takenBy(row, supply int) *int { return &m.taken[row*len(m.supplies)+supply] }
