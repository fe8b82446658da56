package devicescmd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/devicefacts"
)

// row is a line of the overview: a node or a shared pool, or many that look the same.
type row struct {
	devicefacts.Summary
	// alike is how many there are.
	alike int
	// varying is set if they only have the same numbers, and differ in what is left.
	varying bool
}

// label names a row.
func (r *row) label() string {
	name, noun := r.Node, "node"
	if r.Pool != "" {
		name, noun = r.Pool, "pool"
	}
	switch {
	case r.alike > 1:
		return fmt.Sprintf("%d %ss like %s", r.alike, noun, name)
	case r.Pool != "":
		return "pool " + name
	}
	return name
}

// rowsAtMost is how many rows the overview has, unless each of many drivers needs one.
const rowsAtMost = 24

// rowLimit says how many rows each driver gets. What one does not need, the others get.
func rowLimit(byDriver [][]devicefacts.Summary) int {
	needs := make([]int, len(byDriver))
	for i, summaries := range byDriver {
		if needs[i] = len(summaries); needs[i] > 1 {
			needs[i] = len(grouped(summaries, looks))
		}
	}
	// All get as many as there can be if all get as many.
	level := 2
	for ; level < rowsAtMost; level++ {
		rows := 0
		for _, need := range needs {
			rows += min(need, level+1)
		}
		if rows > rowsAtMost {
			break
		}
	}
	return level
}

// rowsOf returns a row for each summary, or if these are too many, one for each group that looks the same, and how
// many are left out.
func rowsOf(summaries []devicefacts.Summary, limit int, each bool) (rows []row, more int) {
	if each || len(summaries) <= limit {
		for _, summary := range summaries {
			rows = append(rows, row{Summary: summary, alike: 1})
		}
		return rows, 0
	}
	if rows = grouped(summaries, looks); len(rows) > limit {
		rows = grouped(summaries, counts)
	}
	if len(rows) > limit {
		for _, left := range rows[limit-1:] {
			more += left.alike
		}
		rows = rows[:limit-1]
	}
	return rows, more
}

// grouped joins the summaries for which a function returns the same. The largest group comes first.
func grouped(summaries []devicefacts.Summary, key func(*devicefacts.Summary) string) []row {
	var rows []row
	index := make(map[string]int)
	first := make(map[int]string)
	for i := range summaries {
		summary := &summaries[i]
		k := key(summary)
		at, known := index[k]
		if !known {
			at = len(rows)
			index[k], first[at] = at, looks(summary)
			rows = append(rows, row{Summary: *summary})
		}
		rows[at].alike++
		rows[at].varying = rows[at].varying || looks(summary) != first[at]
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.alike, a.alike) })
	return rows
}

// counts is the same for summaries with the same numbers of devices by state.
func counts(s *devicefacts.Summary) string { return fmt.Sprint(s.Pool != "", s.Counts) }

// looks is the same for summaries that look the same, whichever of their devices are in use.
func looks(s *devicefacts.Summary) string {
	fills := cells(s.Units)
	slices.Sort(fills)
	text := counts(s) + string(fills)
	for i := range s.Rooms {
		text += " " + roomInWords(&s.Rooms[i])
	}
	return text
}
