package kubectl

import (
	"cmp"
	"fmt"
	"slices"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
)

// row is a line of the overview: a node or a shared pool, or several that look the same.
type row struct {
	devicefacts.Summary
	// alike is the number of nodes or pools in the row.
	alike int
	// varying is set if these only have the same counts, and differ in what is left.
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

// rowsAtMost bounds the rows of the overview; with many drivers, each still gets some.
const rowsAtMost = 24

// rowLimit returns the number of rows for each driver. Drivers that need fewer leave the rest to others.
func rowLimit(byDriver [][]devicefacts.Summary) int {
	needs := make([]int, len(byDriver))
	for i, summaries := range byDriver {
		if needs[i] = len(summaries); needs[i] > 1 {
			needs[i] = len(grouped(summaries, looks))
		}
	}
	// Find the highest limit (at least 2) at which the rows of all drivers together stay within rowsAtMost.
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

// rowsOf returns a row for each summary or, if there are too many, one for each group that looks the same, and the
// number of summaries left out.
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

// grouped joins summaries with the same key. The largest group comes first.
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

// counts returns a key that is equal for summaries with the same numbers of devices by state.
func counts(s *devicefacts.Summary) string { return fmt.Sprint(s.Pool != "", s.Counts) }

// looks returns a key that is equal for summaries that look the same, whichever of their devices are in use.
func looks(s *devicefacts.Summary) string {
	fills := cells(s.Units)
	slices.Sort(fills)
	text := counts(s) + string(fills)
	for i := range s.Rooms {
		text += " " + roomInWords(&s.Rooms[i])
	}
	return text
}
