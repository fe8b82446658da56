package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Column is a column of a table.
type Column struct {
	Name string
	// Right is set for columns of numbers, which are right-aligned.
	Right bool
	// Shrinks is set for columns that are shortened, with "…" in the middle, if a terminal is too narrow.
	Shrinks bool
	// Prose is set for columns that are shortened at the end, because the ends do not distinguish their cells.
	Prose bool
	// Last is set for columns that shrink only when no other column can.
	Last bool
}

// Cell is a text in a colour.
type Cell struct {
	Text  string
	Style Style
	// Painted is the text with its own colours, "" if it has none.
	Painted string
}

// Text makes plain cells.
func Text(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	return cells
}

// Table is a table. Columns whose cells are all empty are left out.
type Table struct {
	Columns []Column
	// Indent is the number of spaces before each line.
	Indent int
	rows   [][]Cell
}

// Row appends a row. Attributes of devices may have any text, so control characters are replaced before the width is
// computed.
func (t *Table) Row(cells ...Cell) {
	for i := range cells {
		cells[i].Text = CleanLine(cells[i].Text)
	}
	t.rows = append(t.rows, cells)
}

const gap = 2

// minimum is the least width of a shrunk column.
const minimum = 10

// Write prints the table, with its header.
func (t *Table) Write(w io.Writer, s Screen) error {
	widths := t.widths()
	t.shrink(widths, s.Width)
	header := make([]Cell, len(t.Columns))
	for i := range t.Columns {
		header[i] = Cell{Text: t.Columns[i].Name, Style: Header}
	}
	var text strings.Builder
	t.line(&text, header, widths, s)
	for _, row := range t.rows {
		t.line(&text, row, widths, s)
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// widths returns the desired width of each column; 0 for those that are left out.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	for i := range t.Columns {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.Columns[i].Name))
		}
	}
	return widths
}

// shrink takes the excess width from the widest column that can shrink, one character at a time.
func (t *Table) shrink(widths []int, available int) {
	if available == 0 {
		return
	}
	total := t.Indent - gap
	for _, width := range widths {
		if width > 0 {
			total += width + gap
		}
	}
	for ; total > available; total-- {
		widest := t.widest(widths, false)
		if widest < 0 {
			widest = t.widest(widths, true)
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// widest returns the widest column that can shrink, with the given value of Last; -1 if there is none.
func (t *Table) widest(widths []int, last bool) int {
	widest := -1
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Shrinks && c.Last == last && widths[i] > minimum && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *Table) line(text *strings.Builder, row []Cell, widths []int, s Screen) {
	line := strings.Repeat(" ", t.Indent)
	var painted strings.Builder
	painted.WriteString(line)
	pending := 0 // Spaces that are only needed if more text follows.
	first := true
	for i, cell := range row {
		if widths[i] == 0 {
			continue
		}
		if !first {
			pending += gap
		}
		first = false
		short := Shorten(cell.Text, widths[i])
		if t.Columns[i].Prose {
			short = cut(cell.Text, widths[i])
		}
		fill := widths[i] - utf8.RuneCountInString(short)
		if t.Columns[i].Right {
			pending += fill
		}
		if short != "" {
			painted.WriteString(strings.Repeat(" ", pending))
			pending = 0
			if cell.Painted != "" && s.Color && short == cell.Text {
				painted.WriteString(cell.Painted)
			} else {
				painted.WriteString(s.Paint(cell.Style, short))
			}
		}
		if !t.Columns[i].Right {
			pending += fill
		}
	}
	text.WriteString(strings.TrimRight(painted.String(), " "))
	text.WriteByte('\n')
}

// cut removes the end of a text that is too long.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 1 {
		return text
	}
	return string(runes[:width-1]) + "…"
}

// Shorten removes the middle of a text that is too long, because names often differ at the end.
func Shorten(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 3 {
		return text
	}
	tail := (width - 1) / 2
	head := width - 1 - tail
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}
