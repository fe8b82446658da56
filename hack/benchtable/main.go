// Command benchtable reads the output of `go test -bench` and prints tables that
// compare two implementations: benchmarks whose names say table=NAME, case=NAME and
// impl=upstream or impl=ours, each run several times. Times and ratios are of medians.
//
// With -publish it writes the results of all benchmarks to data files, and with -document it makes
// the tables of a document from these.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

const (
	upstream = "upstream"
	ours     = "ours"
)

// measurements are the values of one unit, by case and implementation.
type measurements map[string]map[string][]float64

func (m measurements) add(name, implementation string, value float64) {
	if m[name] == nil {
		m[name] = make(map[string][]float64)
	}
	m[name][implementation] = append(m[name][implementation], value)
}

// median is not ok if nothing was measured.
func (m measurements) median(name, implementation string) (value float64, ok bool) {
	values := m[name][implementation]
	if len(values) == 0 {
		return 0, false
	}
	const confidence = 0.95 // Only for the interval, which is not shown.
	sample := benchmath.NewSample(values, &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, confidence).Center, true
}

// titles say what is measured, by name of the table.
var titles = map[string]string{
	"warm": "Warm: one allocator is asked the same again and again.",
	"cold": "Cold: `allocator.New` and the questions that follow, each about another node. No allocator has seen the slices before.",
	"next": "Cold, next snapshot: the same, with the slices of the snapshot before.",
}

// tables has the tables in the order in which their first cases were run.
type tables struct {
	order  []string
	byName map[string]*table
}

// table returns a table by name, an empty one if it is new.
func (t *tables) table(name string) *table {
	if t.byName == nil {
		t.byName = make(map[string]*table)
	}
	if t.byName[name] == nil {
		t.order = append(t.order, name)
		t.byName[name] = &table{times: make(measurements), allocs: make(measurements)}
	}
	return t.byName[name]
}

func (t *tables) add(result *benchfmt.Result) error {
	name, implementation := configuration(result.Name, "case"), configuration(result.Name, "impl")
	if name == "" || implementation == "" {
		return nil
	}
	in := configuration(result.Name, "table")
	if titles[in] == "" {
		return fmt.Errorf("benchmark %s: its table= is %q, which has no title; add one to titles", result.Name, in)
	}
	t.table(in).add(result, name, implementation)
	return nil
}

func (t *tables) print(out io.Writer) error {
	for i, name := range t.order {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s\n\n", titles[name])
		if err := t.byName[name].print(out); err != nil {
			return err
		}
	}
	return nil
}

// table collects what is printed, cases in the order in which they were run.
type table struct {
	order         []string
	times, allocs measurements // seconds and numbers, each by operation
}

func (t *table) add(result *benchfmt.Result, name, implementation string) {
	if t.times[name] == nil {
		t.order = append(t.order, name)
	}
	if seconds, found := result.Value("sec/op"); found {
		t.times.add(name, implementation, seconds)
	}
	if number, found := result.Value("allocs/op"); found {
		t.allocs.add(name, implementation, number)
	}
}

// configuration returns the value of a key in the name of a benchmark.
func configuration(name benchfmt.Name, key string) string {
	_, parts := name.Parts()
	for _, part := range parts {
		if value, found := strings.CutPrefix(string(part), "/"+key+"="); found {
			return value
		}
	}
	return ""
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(w, "| case\tupstream\tours\tratio\tupstream allocs\tour allocs\t")
	fmt.Fprintln(w, "|---\t---:\t---:\t---:\t---:\t---:\t")
	for _, name := range t.order {
		ratio := "–"
		theirTime, known := t.times.median(name, upstream)
		ourTime, measured := t.times.median(name, ours)
		if known && measured {
			ratio = fmt.Sprintf("%.1f ×", theirTime/ourTime)
		}
		fmt.Fprintf(w, "| %s\t%s\t%s\t%s\t%s\t%s\t\n", strings.ReplaceAll(name, "_", " "), micros(theirTime, known),
			micros(ourTime, measured), ratio, t.count(name, upstream), t.count(name, ours))
	}
	return w.Flush()
}

func micros(seconds float64, measured bool) string {
	if !measured {
		return "left out"
	}
	return fmt.Sprintf("%.1f µs", seconds*1e6)
}

func (t *table) count(name, implementation string) string {
	number, measured := t.allocs.median(name, implementation)
	if !measured {
		return "–"
	}
	return fmt.Sprintf("%.0f", number)
}

func run(in io.Reader, out io.Writer) error {
	t, err := readTables(in)
	if err != nil {
		return err
	}
	return t.print(out)
}

// options are the command line.
type options struct{ publish, results, conditions, document string }

func (o options) run() error {
	if o.publish == "" && o.document == "" {
		return run(os.Stdin, os.Stdout)
	}
	if o.publish != "" {
		if err := publish(o.publish, o.results, o.conditions); err != nil {
			return err
		}
	}
	if o.document == "" {
		return nil
	}
	return fillFile(o.document, o.results)
}

func main() {
	var o options
	flag.StringVar(&o.publish, "publish", "", "`folder` with the output of benchmarks, to write to data files")
	flag.StringVar(&o.results, "results", filepath.Join("test", "perf", "results"), "`folder` of the data files")
	flag.StringVar(&o.conditions, "conditions", "", "commit and machine of what is published")
	flag.StringVar(&o.document, "document", "", "`file` whose tables are made from the data files")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}
