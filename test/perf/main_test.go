package perf

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	scheduler_perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/quartermaster-dra/quartermaster/test/perf/report"
)

var (
	workloadsFlag = flag.String("workloads", ".", "regular expression of the workloads to run, matched against CASE/WORKLOAD")
	selectionFlag = flag.String("selection", "", "file with the names of the workloads to run, one a line; all that -workloads matches if empty")
	onlyShort     = flag.Bool("only-short", false, "run only the workloads that are marked as short")
	guardFlag     = flag.String("guard", "", "path of bin/guard: where devices are taken, our plugin is also measured with it, and with settling off")
	limitFlag     = flag.Bool("limit", false, "also measure a plugin that decides nothing and makes the writes, and print the others as a part of it; for pods with one claim each, in clusters where nothing is taken")
	roundsFlag    = flag.Int("rounds", 1, "how often each workload is run with each plugin; medians are printed")
)

// resultsVariable names the environment variable with the directory for the table,
// the values behind it, the log and the CPU profiles. It is created if it does not
// exist. It is no flag because it has to be known before flags are read.
const resultsVariable = "BENCH_RESULTS"

func resultsDirectory() string {
	if directory := os.Getenv(resultsVariable); directory != "" {
		return directory
	}
	return filepath.Join("..", "..", "bin", "bench")
}

// measured is what all benchmarks have measured.
var measured struct {
	Results []report.Result `json:"results"`
}

// console is the standard output. os.Stdout and os.Stderr lead into the log: the API
// server, the scheduler and scheduler_perf write more than anybody would read.
var console io.Writer = os.Stdout

func TestMain(m *testing.M) {
	// Loggers keep the file that os.Stderr is when they are made, so this is first.
	log, err := redirectOutput(resultsDirectory())
	if err := errors.Join(err, locateSources()); err != nil {
		fail(err)
	}
	if err := scheduler_perf.InitTests(); err != nil {
		fail(err)
	}
	status := m.Run()
	if status != 0 {
		_, _ = fmt.Fprintf(console, "not everything could be measured; the reason is among the lines with FAIL in %s\n", log)
	}
	if len(measured.Results) > 0 {
		if err := writeResults(resultsDirectory()); err != nil {
			_, _ = fmt.Fprintln(console, err)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

func fail(err error) {
	_, _ = fmt.Fprintln(console, err)
	os.Exit(1)
}

// redirectOutput has the log written to a file of the directory.
func redirectOutput(directory string) (string, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", fmt.Errorf("directory for results: %w", err)
	}
	log, err := os.Create(filepath.Join(directory, "log.txt"))
	if err != nil {
		return "", fmt.Errorf("log of the benchmarks: %w", err)
	}
	os.Stdout, os.Stderr = log, log
	return log.Name(), nil
}

// writeResults prints the table, and writes it with the values behind it.
func writeResults(directory string) error {
	values, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(directory, "results.json"), append(values, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	file, err := os.Create(filepath.Join(directory, "table.md"))
	if err != nil {
		return fmt.Errorf("write the table of results: %w", err)
	}
	_, _ = fmt.Fprintln(console)
	both := io.MultiWriter(console, file)
	err = errors.Join(report.Write(both, measured.Results, inTreePlugin.label, quartermasterPlugin.label, besidePlugin.label,
		unsettledPlugin.label, guardedPlugin.label),
		report.WriteParts(both, measured.Results, limitPlugin.label, inTreePlugin.label, quartermasterPlugin.label))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the table of results: %w", err)
	}
	return nil
}
