package main

import (
	"fmt"
	"io"
	"strings"
)

// column is one measured quantity.
type column struct {
	title, format string
	// own is set if the value compares a scheduler with itself; its ratio to the baseline is not shown.
	own bool
}

// row holds the results of a scheduler, a value for each column.
type row struct {
	label  string
	values []float64
}

// writeTable writes the results as a Markdown table, each value with its ratio to the
// baseline's.
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
