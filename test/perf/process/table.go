package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// measurement is what a scheduler's process came to.
type measurement struct {
	label string
	// heap are live objects, in bytes; resident is the process's memory, which
	// holds garbage and code as well.
	heap, resident uint64
	// start is CPU time from the start until the pods are created, perPod the rest
	// divided by the pods.
	start, perPod time.Duration
	// throughput is in pods per second, from the creation of the first one until the
	// last one is scheduled.
	throughput float64
}

// columns are what is measured; of pods/s more is better, of all others less.
var columns = []struct {
	title, format string
	value         func(measurement) float64
}{
	{"pods/s", "%.1f", func(m measurement) float64 { return m.throughput }},
	{"CPU ms/pod", "%.2f", func(m measurement) float64 { return float64(m.perPod) / float64(time.Millisecond) }},
	{"CPU to start s", "%.2f", func(m measurement) float64 { return m.start.Seconds() }},
	{"heap MiB", "%.1f", func(m measurement) float64 { return float64(m.heap) / (1 << 20) }},
	{"resident MiB", "%.0f", func(m measurement) float64 { return float64(m.resident) / (1 << 20) }},
}

// writeTable writes the measurements as a Markdown table, each value with its ratio to
// that of the baseline.
func writeTable(w io.Writer, measured []measurement) error {
	var base *measurement
	for i := range measured {
		if measured[i].label == baseline {
			base = &measured[i]
		}
	}
	var text strings.Builder
	text.WriteString("| scheduler |")
	for _, column := range columns {
		text.WriteString(" " + column.title + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	for i := range measured {
		text.WriteString("| " + measured[i].label + " |")
		for _, column := range columns {
			value := column.value(measured[i])
			text.WriteString(" " + fmt.Sprintf(column.format, value))
			if base != nil && base != &measured[i] && column.value(*base) > 0 {
				fmt.Fprintf(&text, " (%.3g)", value/column.value(*base))
			}
			text.WriteString(" |")
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
