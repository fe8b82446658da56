// Package cpuprofile computes the scheduler's share of a process's CPU time from a CPU
// profile.
package cpuprofile

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// schedulerPackages are the packages of the scheduler: its cycles, its queue, its
// event handlers and its plugins. A stack that passes through one of them works for
// the scheduler. Requests count for as long as they are in the goroutine that sends
// them. Work that the scheduler shares with the rest of the process does not count:
// decoding of watch events for informers, HTTP connections, garbage collection.
var schedulerPackages = []string{
	"k8s.io/kubernetes/pkg/scheduler.",
	"k8s.io/kubernetes/pkg/scheduler/",
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker.",
	"github.com/quartermaster-dra/quartermaster/pkg/",
}

// pluginFunctions are the functions of the wrapper in which both plugins run. All that
// they call in the scheduling cycle belongs to the plugin.
var pluginFunctions = []string{
	"timing.(*timedPlugin).PreFilter",
	"timing.(*timedPlugin).Filter",
	"timing.(*timedPlugin).PostFilter",
	"timing.(*timedOwnPlugin).PreScore",
	"timing.(*timedPlugin).Score",
	"timing.(*timedPlugin).Reserve",
	"timing.timedPreFilterExtensions.",
	"timing.timedScoreExtensions.",
}

const wrapperModule = "github.com/quartermaster-dra/quartermaster/test/perf/"

// Usage is CPU time within a profile.
type Usage struct {
	// Process is the whole process, API server included.
	Process time.Duration
	// Scheduler is the part whose stack passes through the scheduler.
	Scheduler time.Duration
	// Plugin is the part within the plugin's calls in the scheduling cycle, PreFilter
	// to Reserve.
	Plugin time.Duration
}

// Read sums up a CPU profile.
func Read(file string) (Usage, error) {
	open, err := os.Open(file)
	if err != nil {
		return Usage{}, fmt.Errorf("CPU profile: %w", err)
	}
	defer func() { _ = open.Close() }()
	parsed, err := profile.Parse(open)
	if err != nil {
		return Usage{}, fmt.Errorf("CPU profile %s: %w", file, err)
	}
	return usage(parsed)
}

func usage(parsed *profile.Profile) (Usage, error) {
	value := -1
	for i, sampleType := range parsed.SampleType {
		if sampleType.Type == "cpu" && sampleType.Unit == "nanoseconds" {
			value = i
		}
	}
	if value < 0 {
		return Usage{}, fmt.Errorf("the profile has no samples of type cpu in nanoseconds; it is no CPU profile")
	}
	var used Usage
	for _, sample := range parsed.Sample {
		spent := time.Duration(sample.Value[value])
		used.Process += spent
		if passesThrough(sample, schedulerPackages) {
			used.Scheduler += spent
		}
		if passesThrough(sample, pluginFunctions) {
			used.Plugin += spent
		}
	}
	return used, nil
}

// passesThrough reports whether a function on the stack has one of the prefixes.
func passesThrough(sample *profile.Sample, prefixes []string) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			name := strings.TrimPrefix(line.Function.Name, wrapperModule)
			for _, prefix := range prefixes {
				if strings.HasPrefix(name, prefix) {
					return true
				}
			}
		}
	}
	return false
}
