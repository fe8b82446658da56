package search

// supply is a number of devices which the same rows can use.
type supply struct {
	users uint64 // a bit for each row
	count int
}

// matching hands out supplies to rows. It is a maximum flow, found by augmenting
// paths: a row takes from a supply that has some left, or has another row move to
// another supply.
type matching struct {
	supplies []supply
	taken    []int // by row and supply
	left     []int // by supply
	rows     int
	visited  uint64 // rows on the way
}

// satisfiable reports whether the supplies suffice for what all rows are missing.
func (f *flow) satisfiable() bool {
	total, available := 0, -f.surplus
	for i := range f.rows {
		total += max(f.rows[i].need, 0)
	}
	for i := range f.supplies {
		available += f.supplies[i].count
	}
	if total > available {
		return false
	}
	m := &f.matching
	m.supplies, m.rows = f.supplies, len(f.rows)
	m.taken, m.left = resized(m.taken, len(f.rows)*len(f.supplies)), resized(m.left, len(f.supplies))
	for i := range f.supplies {
		m.left[i] = f.supplies[i].count
	}
	for i := range f.rows {
		for missing := f.rows[i].need; missing > 0; {
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

// augment finds up to want more devices for a row and returns how many it found.
func (m *matching) augment(row, want int) int {
	m.visited |= 1 << row
	for i := range m.supplies {
		if m.supplies[i].users&(1<<row) != 0 && m.left[i] > 0 {
			got := min(want, m.left[i])
			m.left[i] -= got
			*m.takenBy(row, i) += got
			return got
		}
	}
	for i := range m.supplies {
		if m.supplies[i].users&(1<<row) == 0 {
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

func (m *matching) takenBy(row, supply int) *int { return &m.taken[row*len(m.supplies)+supply] }
