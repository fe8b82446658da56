package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// better is the direction in which a value is better.
type better int

const (
	neither better = iota
	more
	less
)

// column is one measured quantity. A value that is not positive is shown as "–".
type column struct {
	title  string
	better better
	value  func(Result) float64
	format string
}

// columns are the columns of workloads without preemption and gangs. The numbers of nodes and
// attempts explain the other values, but are neither good nor bad by themselves.
var columns = []column{
	{"per second", more, func(r Result) float64 { return r.Throughput }, "%.1f"},
	{"overall/s", more, func(r Result) float64 { return overall(r) }, "%.1f"},
	{"plugin µs/pod", less, func(r Result) float64 { return perPod(r, r.PluginTime, time.Microsecond) }, "%.1f"},
	{"nodes/pod", neither, func(r Result) float64 { return per(float64(r.Nodes), r.Count) }, "%.1f"},
	{"plugin µs/node", neither, func(r Result) float64 { return per(float64(r.PluginTime)/float64(time.Microsecond), r.Nodes) }, "%.2f"},
	{"cycle ms/pod", less, func(r Result) float64 { return perPod(r, r.CycleTime, time.Millisecond) }, "%.3f"},
	{"attempts/pod", neither, func(r Result) float64 { return per(float64(r.Attempts), r.Count) }, "%.2f"},
	{"attempt p50 ms", less, func(r Result) float64 { return in(r.AttemptP50, time.Millisecond) }, "%.1f"},
	{"attempt p99 ms", less, func(r Result) float64 { return in(r.AttemptP99, time.Millisecond) }, "%.1f"},
	{"plugin CPU ms/pod", less, func(r Result) float64 { return perPod(r, r.PluginCPU, time.Millisecond) }, "%.3f"},
	{"scheduler CPU ms/pod", less, func(r Result) float64 { return perPod(r, r.SchedulerCPU, time.Millisecond) }, "%.2f"},
	{"process CPU ms/pod", less, func(r Result) float64 { return perPod(r, r.ProcessCPU, time.Millisecond) }, "%.2f"},
	{"heap growth MiB", less, func(r Result) float64 { return float64(r.Heap) / (1 << 20) }, "%.0f"},
}

// preemptionColumns are the columns of workloads in which pods evict others. They leave out the
// plugins' time, because the in-tree plugin does none of the measured work there.
var preemptionColumns = []column{
	{"per second", more, func(r Result) float64 { return r.Throughput }, "%.1f"},
	{"overall/s", more, func(r Result) float64 { return overall(r) }, "%.1f"},
	{"dry run ms", less, func(r Result) float64 { return per(in(r.DryRunTime, time.Millisecond), r.DryRuns) }, "%.2f"},
	{"dry runs/pod", neither, func(r Result) float64 { return per(float64(r.DryRuns), r.Count) }, "%.2f"},
	{"victims/needed", less, func(r Result) float64 { return per(float64(r.Victims), r.VictimsNeeded) }, "%.3f"},
	{"cycle ms/pod", less, func(r Result) float64 { return perPod(r, r.CycleTime, time.Millisecond) }, "%.3f"},
	{"attempts/pod", neither, func(r Result) float64 { return per(float64(r.Attempts), r.Count) }, "%.2f"},
	{"attempt p50 ms", less, func(r Result) float64 { return in(r.AttemptP50, time.Millisecond) }, "%.1f"},
	{"attempt p99 ms", less, func(r Result) float64 { return in(r.AttemptP99, time.Millisecond) }, "%.1f"},
	{"scheduler CPU ms/pod", less, func(r Result) float64 { return perPod(r, r.SchedulerCPU, time.Millisecond) }, "%.2f"},
	{"process CPU ms/pod", less, func(r Result) float64 { return perPod(r, r.ProcessCPU, time.Millisecond) }, "%.2f"},
	{"heap growth MiB", less, func(r Result) float64 { return float64(r.Heap) / (1 << 20) }, "%.0f"},
}

// gangColumns are the columns of gangs. Times are those of a whole gang; they are empty if it was not placed.
var gangColumns = []column{
	{"pods", neither, func(r Result) float64 { return float64(r.Gang.Pods) }, "%.0f"},
	{"bound", more, func(r Result) float64 { return float64(r.Count) }, "%.0f"},
	{"created to bound ms", less, func(r Result) float64 { return in(r.Elapsed, time.Millisecond) }, "%.0f"},
	{"ready to bound ms", less, func(r Result) float64 { return in(r.Gang.FromReady, time.Millisecond) }, "%.0f"},
	{"decided ms", less, func(r Result) float64 { return in(r.Gang.Decided, time.Millisecond) }, "%.1f"},
	{"cycle ms", less, func(r Result) float64 { return in(r.CycleTime, time.Millisecond) }, "%.1f"},
	{"plugin ms", less, func(r Result) float64 { return in(r.PluginTime, time.Millisecond) }, "%.1f"},
	{"attempts/pod", neither, func(r Result) float64 { return per(float64(r.Attempts), r.Gang.Pods) }, "%.2f"},
	{"nodes/pod", neither, func(r Result) float64 { return per(float64(r.Nodes), r.Gang.Pods) }, "%.1f"},
}

// tolerance is the difference between two runs of the same code that is ignored, as a fraction of the value.
const tolerance = 0.05

// behind reports whether the ratio of our plugin to the baseline is worse than 1 by more than the tolerance.
func (c column) behind(ratio float64) bool {
	switch c.better {
	case more:
		return ratio < 1-tolerance
	case less:
		return ratio > 1+tolerance
	default:
		return false
	}
}

func overall(r Result) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Count) / r.Elapsed.Seconds()
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
	// ratioRow is the name of the row with our plugin's values divided by the in-tree plugin's.
	ratioRow = "ratio"
	// behindMark precedes a ratio for which our plugin is the worse one.
	behindMark = "▼ "
)

// Write writes the results as Markdown tables: one for preemption, one for gangs and one for all others.
// Each workload, in the order of the results, has a row for the baseline and, for each label in ours, a
// row and then the ratio, ours : baseline. Write marks the ratios for which ours is worse, and lists them
// below the tables.
func Write(w io.Writer, results []Result, baseline string, ours ...string) error {
	var plain, withPreemption, gangs []Result
	for _, result := range results {
		switch {
		case result.Gang.Pods > 0:
			gangs = append(gangs, result)
		case result.VictimsNeeded > 0:
			withPreemption = append(withPreemption, result)
		default:
			plain = append(plain, result)
		}
	}
	var texts, lost []string
	for _, table := range []struct {
		columns []column
		results []Result
	}{{columns, plain}, {preemptionColumns, withPreemption}, {gangColumns, gangs}} {
		if len(table.results) > 0 {
			rows, behind := compare(table.columns, table.results, baseline, ours)
			texts, lost = append(texts, markdown(rows)), append(lost, behind...)
		}
	}
	if len(lost) > 0 {
		texts = append(texts, fmt.Sprintf("%s: behind %s by more than %.0f %%:\n\n%s",
			strings.TrimSpace(behindMark), baseline, 100*tolerance, strings.Join(lost, "")))
	}
	_, err := io.WriteString(w, strings.Join(texts, "\n"))
	return err
}

// compare returns the rows of a table, and a line for each workload and label in ours that is behind the baseline.
func compare(columns []column, results []Result, baseline string, ours []string) (table [][]string, lost []string) {
	table = append(table, header(columns))
	for _, workload := range workloads(results) {
		inTree, hasBaseline := find(results, workload, baseline)
		if hasBaseline {
			table = append(table, row(columns, inTree))
		}
		for _, label := range ours {
			own, measured := find(results, workload, label)
			if !measured {
				continue
			}
			table = append(table, row(columns, own))
			if !hasBaseline {
				continue
			}
			ratio, behind := ratios(columns, own, inTree)
			table = append(table, ratio)
			if len(behind) > 0 {
				lost = append(lost, fmt.Sprintf("- %s, %s: %s\n", workload, label, strings.Join(behind, ", ")))
			}
		}
	}
	return table, lost
}

func header(columns []column) []string {
	cells := []string{"workload", "plugin"}
	for _, column := range columns {
		cells = append(cells, column.title)
	}
	return cells
}

func row(columns []column, result Result) []string {
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

// ratios returns the row of ratios, and the name and ratio of each column in which ours is behind.
func ratios(columns []column, ours, baseline Result) (cells, behind []string) {
	cells = []string{ours.Workload, ratioRow}
	for _, column := range columns {
		own, theirs := column.value(ours), column.value(baseline)
		if own <= 0 || theirs <= 0 {
			cells = append(cells, nothing)
			continue
		}
		cell := fmt.Sprintf("%.3g", own/theirs)
		if column.behind(own / theirs) {
			behind = append(behind, column.title+" "+cell)
			cell = behindMark + cell
		}
		cells = append(cells, cell)
	}
	return cells, behind
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
	runs := runsOf(results, workload, plugin)
	if len(runs) == 0 {
		return Result{}, false
	}
	return Median(runs), true
}

func runsOf(results []Result, workload, plugin string) (runs []Result) {
	for _, result := range results {
		if result.Workload == workload && result.Plugin == plugin {
			runs = append(runs, result)
		}
	}
	return runs
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
