package perf

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	scheduler_perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/perf/cpuprofile"
	"github.com/quartermaster-dra/quartermaster/test/perf/report"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// run measures one workload with one plugin.
func run(b *testing.B, c workload.Case, w workload.Workload, plugin subject) {
	start := time.Now()
	_, _ = fmt.Fprintf(console, "%s with %s: ", workload.FullName(c, w), plugin.label)
	outcome := "failed"
	defer func() { _, _ = fmt.Fprintf(console, "%s after %.0f s\n", outcome, time.Since(start).Seconds()) }()

	directory, err := filepath.Abs(filepath.Join(resultsDirectory(), strings.ReplaceAll(workload.FullName(c, w), "/", "_"), plugin.label))
	if err != nil {
		b.Fatal(err)
	}
	if plugin.name == timing.InTreeName {
		c = c.InTree()
	}
	config, err := writeConfigs(directory, c, w, plugin)
	if err != nil {
		b.Fatal(err)
	}
	// scheduler_perf is told by flags where to put what it measures.
	for name, value := range map[string]string{"data-items-dir": directory, "with-data-items-unique-id": "false", "perf-cpuprofile": "true"} {
		if err := flag.Set(name, value); err != nil {
			b.Fatalf("flag -%s of scheduler_perf: %v", name, err)
		}
	}

	recorder := timing.NewRecorder(workload.Namespace)
	window := &window{recorder: recorder}
	if c.VictimsPerPod > 0 {
		window.evictions = timing.NewEvictions(workload.Namespace)
	}
	preparation := &preparation{recorder: recorder, c: c, w: w, takenBy: plugin.takenBy, label: plugin.label}
	if plugin.guarded {
		preparation.guardLog = filepath.Join(directory, "guard.log")
	}
	finished := b.Run("run", func(b *testing.B) {
		scheduler_perf.RunBenchmarkPerfScheduling(b, config, "quartermaster",
			frameworkruntime.Registry{plugin.name: timing.Factory(plugin.name, recorder, plugin.factory)},
			scheduler_perf.WithPrepareFn(window.open),
			scheduler_perf.WithNodeUpdateFn(preparation.nodesCreated),
			scheduler_perf.WithPodsSchedulingTimeout(w.Timeout.Duration))
	})
	if !finished {
		b.Fatalf("%s with %s failed; what was logged is above", workload.FullName(c, w), plugin.label)
	}
	if c.Gangs != nil {
		placed := preparation.gangs
		measured.Results = append(measured.Results, placed...)
		outcome = fmt.Sprintf("%d gangs done", len(placed))
		return
	}
	result, err := collect(directory, window, preparation)
	if err != nil {
		b.Fatalf("%s with %s: %v", workload.FullName(c, w), plugin.label, err)
	}
	result.Workload, result.Plugin = workload.FullName(c, w), plugin.label
	measured.Results = append(measured.Results, result)
	outcome = fmt.Sprintf("%d done", result.Count)
	// How many victims the in-tree plugin's column has is for the table to show.
	if err := result.CheckVictims(plugin.name != timing.InTreeName); err != nil {
		b.Errorf("%s with %s: %v", result.Workload, result.Plugin, err)
	}
}

// writeConfigs empties the directory and writes the configurations of the scheduler
// and of scheduler_perf. The scheduler's is the one that is shipped for taking the
// default scheduler's place, in both cases: only the plugin's name is another.
func writeConfigs(directory string, c workload.Case, w workload.Workload, plugin subject) (string, error) {
	if err := os.RemoveAll(directory); err != nil {
		return "", err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	shipped, err := manifests.SchedulerConfig(manifests.ReplaceDefault)
	if err != nil {
		return "", err
	}
	schedulerConfig := filepath.Join(directory, "scheduler-config.yaml")
	exchanged := []byte(strings.ReplaceAll(string(shipped), "name: "+quartermaster.Name+"\n", "name: "+plugin.name+"\n"))
	if plugin.alone {
		if exchanged, err = withPoints(shipped, limitPoints()); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(schedulerConfig, exchanged, 0o644); err != nil {
		return "", err
	}
	upstream, err := workload.Upstream(c, w, schedulerConfig)
	if err != nil {
		return "", err
	}
	config := filepath.Join(directory, "performance-config.yaml")
	return config, os.WriteFile(config, upstream, 0o644)
}

// withPoints returns a scheduler configuration whose profile has these extension points, and no arguments of plugins.
func withPoints(config []byte, points map[string]any) ([]byte, error) {
	var decoded map[string]any
	if err := yaml.Unmarshal(config, &decoded); err != nil {
		return nil, fmt.Errorf("shipped scheduler configuration: %w", err)
	}
	profiles, _ := decoded["profiles"].([]any)
	if len(profiles) != 1 {
		return nil, fmt.Errorf("the shipped scheduler configuration has %d profiles, want one", len(profiles))
	}
	profile, _ := profiles[0].(map[string]any)
	profile["plugins"] = points
	delete(profile, "pluginConfig")
	return yaml.Marshal(decoded)
}

// collect reads what scheduler_perf has written and adds what was seen meanwhile.
func collect(directory string, window *window, preparation *preparation) (report.Result, error) {
	items, err := readDataItems(directory)
	if err != nil {
		return report.Result{}, err
	}
	profile, err := onlyFile(directory, "*-cpu.prof")
	if err != nil {
		return report.Result{}, err
	}
	used, err := cpuprofile.Read(profile)
	if err != nil {
		return report.Result{}, err
	}
	totals := window.totals
	result := report.Result{
		Count:        totals.Committed,
		Attempts:     totals.PreFilter.Calls,
		Nodes:        totals.Filter.Calls,
		Throughput:   items.value("SchedulingThroughput", "Average"),
		Elapsed:      totals.Elapsed,
		PluginTime:   totals.Plugin(),
		CycleTime:    window.cycle(),
		AttemptP50:   time.Duration(items.value(workload.AttemptMetric, "Perc50") * float64(time.Millisecond)),
		AttemptP99:   time.Duration(items.value(workload.AttemptMetric, "Perc99") * float64(time.Millisecond)),
		PluginCPU:    used.Plugin,
		SchedulerCPU: used.Scheduler,
		ProcessCPU:   used.Process,
		Heap:         window.heap,
		Points:       window.points,
		PluginPoints: totals,
	}
	if preparation.c.MeasurePublishing {
		result.Count = int64(preparation.slices)
		result.Throughput = float64(preparation.slices) / preparation.took.Seconds()
	}
	if perPod := preparation.c.VictimsPerPod; perPod > 0 {
		measured := window.preemption
		result.Count, result.Elapsed = measured.bound, measured.elapsed
		result.DryRuns, result.DryRunTime = measured.dryRuns.Calls, measured.dryRuns.Time
		result.Victims, result.VictimsNeeded = measured.victims, int64(perPod)*measured.bound
	}
	if result.Count == 0 {
		return report.Result{}, fmt.Errorf("no pod in namespace %q got its claims: nothing was measured", workload.Namespace)
	}
	return result, nil
}
