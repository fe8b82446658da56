package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// column is one measured quantity. A value that is not positive is shown as "–".
type column struct {
	title  string
	value  func(Result) float64
	format string
}

var columns = []column{
	{"per second", func(r Result) float64 { return r.Throughput }, "%.1f"},
	{"plugin µs/pod", func(r Result) float64 { return perPod(r, r.PluginTime, time.Microsecond) }, "%.1f"},
	{"nodes/pod", func(r Result) float64 { return per(float64(r.Nodes), r.Count) }, "%.1f"},
	{"plugin µs/node", func(r Result) float64 { return per(float64(r.PluginTime)/float64(time.Microsecond), r.Nodes) }, "%.2f"},
	{"cycle ms/pod", func(r Result) float64 { return perPod(r, r.CycleTime, time.Millisecond) }, "%.3f"},
	{"attempts/pod", func(r Result) float64 { return per(float64(r.Attempts), r.Count) }, "%.2f"},
	{"attempt p50 ms", func(r Result) float64 { return in(r.AttemptP50, time.Millisecond) }, "%.1f"},
	{"attempt p99 ms", func(r Result) float64 { return in(r.AttemptP99, time.Millisecond) }, "%.1f"},
	{"plugin CPU ms/pod", func(r Result) float64 { return perPod(r, r.PluginCPU, time.Millisecond) }, "%.3f"},
	{"scheduler CPU ms/pod", func(r Result) float64 { return perPod(r, r.SchedulerCPU, time.Millisecond) }, "%.2f"},
	{"process CPU ms/pod", func(r Result) float64 { return perPod(r, r.ProcessCPU, time.Millisecond) }, "%.2f"},
	{"heap growth MiB", func(r Result) float64 { return float64(r.Heap) / (1 << 20) }, "%.0f"},
}

func in(d, unit time.Duration) float64 { return float64(d) / float64(unit) }

func per(value float64, count int64) float64 {
	if count == 0 {
		return 0
	}
	return value / float64(count)
}

func perPod(r Result, d, unit time.Duration) float64 { return per(in(d, unit), r.Count) }

const (
	// nothing stands for a value that was not measured.
	nothing = "–"
	// ratioRow is the name of the row that divides ours by the in-tree plugin's.
	ratioRow = "ratio"
)

// Write writes the results as a Markdown table: for each workload, in the order in
// which they come, a row for each plugin and then the ratio, ours : baseline.
func Write(w io.Writer, results []Result, ours, baseline string) error {
	table := [][]string{header()}
	for _, workload := range workloads(results) {
		inTree, hasBaseline := find(results, workload, baseline)
		if hasBaseline {
			table = append(table, row(inTree))
		}
		own, hasOurs := find(results, workload, ours)
		if hasOurs {
			table = append(table, row(own))
		}
		if hasBaseline && hasOurs {
			table = append(table, ratios(own, inTree))
		}
	}
	_, err := io.WriteString(w, markdown(table))
	return err
}

func header() []string {
	cells := []string{"workload", "plugin"}
	for _, column := range columns {
		cells = append(cells, column.title)
	}
	return cells
}

func row(result Result) []string {
	cells := []string{result.Workload, result.Plugin}
	for _, column := range columns {
		value := column.value(result)
		if value > 0 {
			cells = append(cells, fmt.Sprintf(column.format, value))
		} else {
			cells = append(cells, nothing)
		}
	}
	return cells
}

func ratios(ours, baseline Result) []string {
	cells := []string{ours.Workload, ratioRow}
	for _, column := range columns {
		own, theirs := column.value(ours), column.value(baseline)
		if own > 0 && theirs > 0 {
			cells = append(cells, fmt.Sprintf("%.3g", own/theirs))
		} else {
			cells = append(cells, nothing)
		}
	}
	return cells
}

func workloads(results []Result) []string {
	var names []string
	for _, result := range results {
		if !slices.Contains(names, result.Workload) {
			names = append(names, result.Workload)
		}
	}
	return names
}

func find(results []Result, workload, plugin string) (Result, bool) {
	var runs []Result
	for _, result := range results {
		if result.Workload == workload && result.Plugin == plugin {
			runs = append(runs, result)
		}
	}
	if len(runs) == 0 {
		return Result{}, false
	}
	return Median(runs), true
}

// markdown aligns the columns, so that the table can be read on a terminal as well.
func markdown(table [][]string) string {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var text strings.Builder
	for number, cells := range table {
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i < 2 {
				text.WriteString("| " + cell + padding + " ")
			} else {
				text.WriteString("| " + padding + cell + " ")
			}
		}
		text.WriteString("|\n")
		if number == 0 {
			for i, width := range widths {
				if i < 2 {
					text.WriteString("|" + strings.Repeat("-", width+2))
				} else {
					text.WriteString("|" + strings.Repeat("-", width+1) + ":")
				}
			}
			text.WriteString("|\n")
		}
	}
	return text.String()
}
