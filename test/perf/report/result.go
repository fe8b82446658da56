// Package report turns measurements into a table that compares our plugin with the
// in-tree one.
package report

import (
	"fmt"
	"slices"
	"time"
)

// Result is the measurement of one run of one workload with one plugin. A value that was
// not measured is 0.
type Result struct {
	Workload string `json:"workload"`
	Plugin   string `json:"plugin"`
	// Count is the number of pods whose claims were written, or, for a workload
	// without pods, the number of slices published. Values "per pod" are divided by it.
	Count int64 `json:"count"`
	// Attempts is the number of scheduling cycles that reached the plugin.
	Attempts int64 `json:"attempts"`
	// Nodes is the number of Filter calls, over all attempts.
	Nodes int64 `json:"nodes"`
	// Throughput is in pods, or slices, per second: the mean of scheduler_perf's samples.
	Throughput float64 `json:"throughput"`
	// Elapsed is the time from the arrival of the first pod in the queue until the claims of
	// the last one had been written.
	Elapsed time.Duration `json:"elapsed"`
	// PluginTime is the plugin's own part of CycleTime, except that calls on several nodes
	// at a time are added up.
	PluginTime time.Duration `json:"pluginTime"`
	// CycleTime is the time of all plugins from PreFilter to Reserve, summed over pods.
	CycleTime time.Duration `json:"cycleTime"`
	// AttemptP50 and AttemptP99 are quantiles of the duration of a successful
	// attempt, binding included.
	AttemptP50 time.Duration `json:"attemptP50"`
	AttemptP99 time.Duration `json:"attemptP99"`
	// PluginCPU, SchedulerCPU and ProcessCPU are CPU times from the profile of the
	// measurement: those of the plugin's part of the cycle, of the whole scheduler,
	// and of the process, which runs the API server as well.
	PluginCPU    time.Duration `json:"pluginCPU"`
	SchedulerCPU time.Duration `json:"schedulerCPU"`
	ProcessCPU   time.Duration `json:"processCPU"`
	// Heap is the growth, in bytes, of the live objects of the process from an empty
	// cluster to the end of the workload. The process runs the API server as well.
	Heap int64 `json:"heap"`
	// VictimsNeeded is the number of pods that had to be evicted, 0 unless preemption was
	// measured; Victims is the number of pods that were evicted. With preemption, Count is the
	// number of pods bound, and Elapsed ends when the last one was bound.
	Victims       int64 `json:"victims,omitempty"`
	VictimsNeeded int64 `json:"victimsNeeded,omitempty"`
	// DryRuns is the number of calls of PostFilter that found victims, DryRunTime the time that they took.
	DryRuns    int64         `json:"dryRuns,omitempty"`
	DryRunTime time.Duration `json:"dryRunTime,omitempty"`
	// Gang is set if a gang was measured. Count is then the number of its pods that were bound, and Elapsed the time from the
	// creation of the first pod until the last one was bound.
	Gang Gang `json:"gang,omitzero"`
	// Points is the time of each extension point of all plugins, PluginPoints that of
	// the measured plugin alone. They are not in the table: they help to find out where
	// time goes.
	Points       map[string]time.Duration `json:"points"`
	PluginPoints any                      `json:"pluginPoints"`
}

// Gang holds the values of a Result that only gangs have. Times are 0 if nothing was bound.
type Gang struct {
	// Pods is the number of pods of the gang.
	Pods int64 `json:"pods"`
	// FromReady is the time until the last pod was bound, from the moment at which the scheduler had the claims that the last
	// pod waited for.
	FromReady time.Duration `json:"fromReady"`
	// Decided is the time from the first PreFilter until the last Reserve: the search for nodes for all pods, in all attempts
	// of the gang.
	Decided time.Duration `json:"decided"`
}

// CheckVictims returns an error if fewer pods were evicted than needed: the nodes were not full then, and
// the figures measure something else. With noMore, it also returns an error if more pods were evicted.
func (r Result) CheckVictims(noMore bool) error {
	switch {
	case r.Victims < r.VictimsNeeded:
		return fmt.Errorf("%d pods were evicted where full nodes need %d; were the nodes full?", r.Victims, r.VictimsNeeded)
	case noMore && r.Victims > r.VictimsNeeded:
		return fmt.Errorf("%d pods were evicted where %d are needed", r.Victims, r.VictimsNeeded)
	}
	return nil
}

// Median merges several runs of the same workload and plugin: each value is its
// median over the runs, except for Points and PluginPoints, which are the first run's.
func Median(runs []Result) Result {
	merged := runs[0]
	merged.Count = median(runs, func(r Result) int64 { return r.Count })
	merged.Attempts = median(runs, func(r Result) int64 { return r.Attempts })
	merged.Nodes = median(runs, func(r Result) int64 { return r.Nodes })
	merged.Throughput = median(runs, func(r Result) float64 { return r.Throughput })
	merged.Elapsed = median(runs, func(r Result) time.Duration { return r.Elapsed })
	merged.PluginTime = median(runs, func(r Result) time.Duration { return r.PluginTime })
	merged.CycleTime = median(runs, func(r Result) time.Duration { return r.CycleTime })
	merged.AttemptP50 = median(runs, func(r Result) time.Duration { return r.AttemptP50 })
	merged.AttemptP99 = median(runs, func(r Result) time.Duration { return r.AttemptP99 })
	merged.PluginCPU = median(runs, func(r Result) time.Duration { return r.PluginCPU })
	merged.SchedulerCPU = median(runs, func(r Result) time.Duration { return r.SchedulerCPU })
	merged.ProcessCPU = median(runs, func(r Result) time.Duration { return r.ProcessCPU })
	merged.Heap = median(runs, func(r Result) int64 { return r.Heap })
	merged.Victims = median(runs, func(r Result) int64 { return r.Victims })
	merged.VictimsNeeded = median(runs, func(r Result) int64 { return r.VictimsNeeded })
	merged.Gang.Pods = median(runs, func(r Result) int64 { return r.Gang.Pods })
	merged.Gang.FromReady = median(runs, func(r Result) time.Duration { return r.Gang.FromReady })
	merged.Gang.Decided = median(runs, func(r Result) time.Duration { return r.Gang.Decided })
	merged.DryRuns = median(runs, func(r Result) int64 { return r.DryRuns })
	merged.DryRunTime = median(runs, func(r Result) time.Duration { return r.DryRunTime })
	return merged
}

// median returns the middle value, the lower one of two.
func median[T int64 | float64 | time.Duration](runs []Result, value func(Result) T) T {
	values := make([]T, 0, len(runs))
	for _, run := range runs {
		values = append(values, value(run))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
