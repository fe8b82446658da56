// Package report turns measurements into a table that sets our plugin against the
// in-tree one.
package report

import (
	"fmt"
	"slices"
	"time"
)

// Result is what one run of one workload with one plugin came to. A value that was
// not measured is 0.
type Result struct {
	Workload string `json:"workload"`
	Plugin   string `json:"plugin"`
	// Count is the number of pods whose claims were written, or, for a workload
	// without pods, of the slices published. What follows "per pod" is per these.
	Count int64 `json:"count"`
	// Attempts is the number of scheduling cycles that reached the plugin.
	Attempts int64 `json:"attempts"`
	// Nodes is the number of Filter calls, over all attempts.
	Nodes int64 `json:"nodes"`
	// Throughput is in pods, or slices, per second: the mean of scheduler_perf's samples.
	Throughput float64 `json:"throughput"`
	// Elapsed is from when the first pod got into the queue until the claims of the last
	// one had been written.
	Elapsed time.Duration `json:"elapsed"`
	// PluginTime is the plugin's own part of CycleTime, except that calls on several nodes
	// at a time are added up.
	PluginTime time.Duration `json:"pluginTime"`
	// CycleTime is that of all plugins from PreFilter to Reserve, summed over pods.
	CycleTime time.Duration `json:"cycleTime"`
	// AttemptP50 and AttemptP99 are quantiles of the duration of a successful
	// attempt, binding included.
	AttemptP50 time.Duration `json:"attemptP50"`
	AttemptP99 time.Duration `json:"attemptP99"`
	// PluginCPU, SchedulerCPU and ProcessCPU are CPU time, from the profile of the
	// measurement: of the plugin's part of the cycle, of everything that the
	// scheduler does, and of the process, which runs the API server as well.
	PluginCPU    time.Duration `json:"pluginCPU"`
	SchedulerCPU time.Duration `json:"schedulerCPU"`
	ProcessCPU   time.Duration `json:"processCPU"`
	// Heap is in bytes: by how much the live objects of the process, which runs the
	// API server as well, grew from an empty cluster to the end of the workload.
	Heap int64 `json:"heap"`
	// VictimsNeeded is how many pods had to be evicted, and 0 unless preemption was measured;
	// Victims is how many were. Count is then that of the pods bound, and Elapsed until
	// the last one was.
	Victims       int64 `json:"victims,omitempty"`
	VictimsNeeded int64 `json:"victimsNeeded,omitempty"`
	// DryRuns is the number of calls of PostFilter that found victims, DryRunTime their time.
	DryRuns    int64         `json:"dryRuns,omitempty"`
	DryRunTime time.Duration `json:"dryRunTime,omitempty"`
	// Gang is set if a gang was measured, of which Count pods were bound; Elapsed is then from the first creation of a pod until
	// the last one was bound.
	Gang Gang `json:"gang,omitzero"`
	// Points is the time of each extension point of all plugins, PluginPoints that of
	// the measured plugin alone. They are not in the table: they help to find out where
	// time goes.
	Points       map[string]time.Duration `json:"points"`
	PluginPoints any                      `json:"pluginPoints"`
}

// Gang is what there is to know of a gang, besides what there is of other pods. Times are 0 if nothing was bound.
type Gang struct {
	// Pods is how many pods it has.
	Pods int64 `json:"pods"`
	// FromReady is from when the scheduler had all that the last pod waited for, its claims, until the last pod was bound.
	FromReady time.Duration `json:"fromReady"`
	// Decided is from the first PreFilter until the last Reserve: what it takes to find nodes for all pods, all attempts of the gang.
	Decided time.Duration `json:"decided"`
}

// CheckVictims returns an error if fewer pods were evicted than had to be, because then the nodes were
// not full and the figures are of something else, or if more were and there must not be more.
func (r Result) CheckVictims(noMore bool) error {
	switch {
	case r.Victims < r.VictimsNeeded:
		return fmt.Errorf("%d pods were evicted where full nodes need %d; were the nodes full?", r.Victims, r.VictimsNeeded)
	case noMore && r.Victims > r.VictimsNeeded:
		return fmt.Errorf("%d pods were evicted where %d are needed", r.Victims, r.VictimsNeeded)
	}
	return nil
}

// Median merges several runs of the same workload and plugin: each value is the
// median of its own, except for Points and PluginPoints, which are the first run's.
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

// median is the middle value, the lower one of two.
func median[T int64 | float64 | time.Duration](runs []Result, value func(Result) T) T {
	values := make([]T, 0, len(runs))
	for _, run := range runs {
		values = append(values, value(run))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
