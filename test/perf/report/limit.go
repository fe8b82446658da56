package report

import (
	"fmt"
	"io"
	"slices"
)

// WriteParts writes a Markdown table of throughputs: for each workload that was measured with the plugin of label limit, how many pods a
// second that bound, and the others as a part of it. With several runs it is the median, and behind it the smallest and the largest part,
// each compared with the median of limit. It writes nothing if there is no such workload.
func WriteParts(w io.Writer, results []Result, limit string, labels ...string) error {
	table := [][]string{append([]string{"workload", limit + " pods/s"}, labels...)}
	for _, workload := range workloads(results) {
		most, measured := find(results, workload, limit)
		if !measured {
			continue
		}
		cells := []string{workload, fmt.Sprintf("%.1f", overall(most)) + spread(results, workload, limit, 1, "%.1f")}
		for _, label := range labels {
			own, measured := find(results, workload, label)
			if !measured {
				cells = append(cells, nothing)
				continue
			}
			cells = append(cells, fmt.Sprintf("%.2f", overall(own)/overall(most))+spread(results, workload, label, overall(most), "%.2f"))
		}
		table = append(table, cells)
	}
	if len(table) == 1 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+markdown(table))
	return err
}

// spread returns the smallest and the largest throughput of several runs, divided by unit; "" for one run.
func spread(results []Result, workload, plugin string, unit float64, format string) string {
	var values []float64
	for _, run := range runsOf(results, workload, plugin) {
		values = append(values, overall(run)/unit)
	}
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf(" ("+format+"–"+format+")", slices.Min(values), slices.Max(values))
}
