package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteTable(t *testing.T) {
	var text strings.Builder
	columns := []column{{title: "pods/s", format: "%.1f"}, {title: "of quiet", format: "%.2f", own: true}, {title: "CPU s", format: "%.0f"}}
	require.NoError(t, writeTable(&text, columns, []row{
		{label: "other", values: []float64{12, 0.5, 3}},
		{label: baseline, values: []float64{40, 0.8, 0}},
		{label: "ours", values: []float64{100, 0.9, 2}},
	}))
	require.Equal(t, `| scheduler | pods/s | of quiet | CPU s |
|---|---:|---:|---:|
| other | 12.0 (0.3) | 0.50 | 3 |
| in-tree | 40.0 | 0.80 | 0 |
| ours | 100.0 (2.5) | 0.90 | 2 |
`, text.String())
}
