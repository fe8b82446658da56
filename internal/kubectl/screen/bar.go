package screen

import "strings"

// Fill is the look of a cell in a bar.
type Fill byte

// Cells of bars, in the order in which they are drawn if there is not one cell for each unit.
const (
	Full    Fill = '#'
	Part    Fill = '='
	Tainted Fill = 'x'
	Lost    Fill = '-'
	Empty   Fill = '.'
)

var fills = []Fill{Full, Part, Tainted, Lost, Empty}

var fillStyles = map[Fill]Style{Full: Used, Part: Partly, Tainted: Warn, Lost: Bad, Empty: Good}

// Legend explains bars.
const Legend = "# in use   = in part   . free   x tainted   - cannot be had"

// Bar draws cells. If there are more than fit, each cell stands for several, in the order of the legend; every kind
// that occurs gets at least one cell.
func Bar(cells []Fill, width int, s Screen) Cell {
	if len(cells) == 0 {
		return Cell{}
	}
	if len(cells) > width {
		cells = scaled(cells, width)
	}
	var text, painted strings.Builder
	text.WriteByte('[')
	painted.WriteByte('[')
	for start := 0; start < len(cells); {
		end := start
		for end < len(cells) && cells[end] == cells[start] {
			end++
		}
		run := strings.Repeat(string(rune(cells[start])), end-start)
		text.WriteString(run)
		painted.WriteString(s.Paint(fillStyles[cells[start]], run))
		start = end
	}
	text.WriteByte(']')
	painted.WriteByte(']')
	return Cell{Text: text.String(), Painted: painted.String()}
}

// scaled draws width cells in proportion to how often each kind occurs.
func scaled(cells []Fill, width int) []Fill {
	count := make(map[Fill]int)
	for _, cell := range cells {
		count[cell]++
	}
	share := make(map[Fill]int)
	used := 0
	for _, fill := range fills {
		if count[fill] > 0 {
			share[fill] = max(1, count[fill]*width/len(cells))
			used += share[fill]
		}
	}
	for ; used != width; used += sign(width - used) {
		// Adjust the kind that is furthest from its exact share.
		var best Fill
		var off float64
		for _, fill := range fills {
			should := float64(count[fill]*width) / float64(len(cells))
			difference := (should - float64(share[fill])) * float64(sign(width-used))
			if count[fill] > 0 && (used < width || share[fill] > 1) && (best == 0 || difference > off) {
				best, off = fill, difference
			}
		}
		if best == 0 {
			break
		}
		share[best] += sign(width - used)
	}
	var result []Fill
	for _, fill := range fills {
		for range share[fill] {
			result = append(result, fill)
		}
	}
	return result
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}
