package main

import (
	"fmt"
	"io"
	"strings"
)

// column is one of the things that are measured.
type column struct {
	title, format string
	// own is set for what compares a scheduler with itself: no ratio to the baseline is shown.
	own bool
}

// row is what a scheduler came to, with a value for each column.
type row struct {
	label  string
	values []float64
}

// writeTable writes what was measured as a Markdown table, each value with its ratio to
// that of the baseline.
func writeTable(w io.Writer, columns []column, rows []row) error {
	var base []float64
	for _, row := range rows {
		if row.label == baseline {
			base = row.values
		}
	}
	var text strings.Builder
	text.WriteString("| scheduler |")
	for _, column := range columns {
		text.WriteString(" " + column.title + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	for _, row := range rows {
		text.WriteString("| " + row.label + " |")
		for i, value := range row.values {
			text.WriteString(" " + fmt.Sprintf(columns[i].format, value))
			if base != nil && row.label != baseline && !columns[i].own && base[i] > 0 {
				fmt.Fprintf(&text, " (%.3g)", value/base[i])
			}
			text.WriteString(" |")
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
