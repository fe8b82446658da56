// Package workload reads the workload files in testdata and turns each workload
// into a configuration of upstream's scheduler_perf.
package workload

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Namespace is the namespace of the measured pods of every workload.
const Namespace = "test"

// Case is a kind of work: a sequence of scheduler_perf's operations, and the
// workloads that run it with different parameters.
type Case struct {
	Name string `json:"name"`
	// Slices are templates of the ResourceSlices that each node's driver publishes.
	// They are executed as scheduler_perf executes its own templates, with the
	// node's number as .Index.
	Slices []string `json:"slices,omitempty"`
	// NodesPerSlice is the number of nodes that share the slices; 1 if unset. .Index is
	// then the number of the group of nodes.
	NodesPerSlice int `json:"nodesPerSlice,omitempty"`
	// MoreSlices are the slices of drivers whose devices are shared by other numbers of nodes.
	MoreSlices []SharedSlices `json:"moreSlices,omitempty"`
	// Occupied describes the claims that hold devices before the measurement.
	Occupied Occupied `json:"occupied,omitempty"`
	// FeatureGates and WorkloadTemplate are those of scheduler_perf.
	FeatureGates     map[string]bool  `json:"featureGates,omitempty"`
	WorkloadTemplate []map[string]any `json:"workloadTemplate"`
	Workloads        []Workload       `json:"workloads"`
	// MeasurePublishing measures the publishing of the slices: it happens after the second
	// createNodes instead of the first one. There are no pods then, and the second
	// createNodes creates no node.
	MeasurePublishing bool `json:"measurePublishing,omitempty"`
	// VictimsPerPod is the exact number of pods that have to be evicted for each measured pod;
	// 0 if none. Otherwise the case measures preemption, which has a table of its own.
	VictimsPerPod int `json:"victimsPerPod,omitempty"`
	// InTreeTemplate is the WorkloadTemplate of the in-tree plugin, which then runs without
	// slices. It is set where the in-tree plugin cannot do the measured work with devices.
	InTreeTemplate []map[string]any `json:"inTreeTemplate,omitempty"`
	// Gangs is set if the case measures gangs, which have a table of their own.
	Gangs *Gangs `json:"gangs,omitempty"`
}

// InTree returns the case as it is run with the in-tree plugin.
func (c Case) InTree() Case {
	if len(c.InTreeTemplate) > 0 {
		c.WorkloadTemplate, c.Slices, c.MoreSlices = c.InTreeTemplate, nil, nil
	}
	return c
}

// SharedSlices are templates of ResourceSlices that NodesPerSlice nodes share, with the number of the group of nodes as .Index.
type SharedSlices struct {
	Templates     []string `json:"templates"`
	NodesPerSlice int      `json:"nodesPerSlice"`
}

// Occupied describes claims that hold devices although no pod uses them.
type Occupied struct {
	// DevicesPerClaim is the number of devices, of one node, that each claim holds;
	// 1 if unset.
	DevicesPerClaim int `json:"devicesPerClaim,omitempty"`
	// ClaimsPerNode is the maximum number of claims with devices of the same node; if
	// unset, the number of devices is the limit. Devices that consume the same counters
	// need it, because they cannot all be allocated.
	ClaimsPerNode int `json:"claimsPerNode,omitempty"`
}

// Workload is one line of the result.
type Workload struct {
	Name string `json:"name"`
	// Short workloads are those of `make bench-short`.
	Short bool `json:"short,omitempty"`
	// OccupiedClaims is the number of claims that hold devices beforehand.
	OccupiedClaims int `json:"occupiedClaims,omitempty"`
	// Gangs are the gangs of the workload, in this order.
	Gangs []Gang `json:"gangs,omitempty"`
	// FeatureGates are the gates that differ from the case's.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Timeout is the time limit for scheduling the pods of one operation; if unset, the
	// ten minutes of scheduler_perf.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Params are values for WorkloadTemplate, and for InTreeTemplate.
	Params map[string]any `json:"params,omitempty"`
}

// Load reads all workload files of a directory, in the order of their names.
func Load(directory string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("load workloads: directory %q has no files *.yaml", directory)
	}
	slices.Sort(files)
	var cases []Case
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("load workloads: %w", err)
		}
		var read []Case
		if err := yaml.UnmarshalStrict(content, &read); err != nil {
			return nil, fmt.Errorf("load workloads: %s must be a list of cases: %w", file, err)
		}
		cases = append(cases, read...)
	}
	return cases, check(cases)
}

// check returns an error if two workloads have the same name, because their results could not be told apart.
func check(cases []Case) error {
	seen := make(map[string]bool)
	for _, c := range cases {
		for _, w := range c.Workloads {
			name := FullName(c, w)
			if seen[name] {
				return fmt.Errorf("load workloads: %s is defined twice; give one of them another name", name)
			}
			seen[name] = true
		}
	}
	return nil
}

// FullName returns the name of a workload on the command line and in the table.
func FullName(c Case, w Workload) string { return c.Name + "/" + w.Name }

// upstreamCase is a test case in the format of scheduler_perf.
type upstreamCase struct {
	Name                   string             `json:"name"`
	FeatureGates           map[string]bool    `json:"featureGates"`
	SchedulerConfigPath    string             `json:"schedulerConfigPath"`
	MetricsCollectorConfig metricsToCollect   `json:"metricsCollectorConfig"`
	WorkloadTemplate       []map[string]any   `json:"workloadTemplate"`
	Workloads              []upstreamWorkload `json:"workloads"`
}

type upstreamWorkload struct {
	Name   string         `json:"name"`
	Labels []string       `json:"labels"`
	Params map[string]any `json:"params"`
}

type metricsToCollect struct {
	Metrics map[string][]labelValues `json:"metrics"`
}

type labelValues struct {
	Label  string   `json:"label"`
	Values []string `json:"values"`
}

// AttemptMetric is the metric that is collected for successful attempts.
const AttemptMetric = "scheduler_scheduling_attempt_duration_seconds"

// Upstream returns the configuration for scheduler_perf that runs one workload with the
// given scheduler configuration file. The label is the one that scheduler_perf
// selects by default.
func Upstream(c Case, w Workload, schedulerConfig string) ([]byte, error) {
	gates := map[string]bool{"DynamicResourceAllocation": true}
	maps.Copy(gates, c.FeatureGates)
	maps.Copy(gates, w.FeatureGates)
	return yaml.Marshal([]upstreamCase{{
		Name:                c.Name,
		FeatureGates:        gates,
		SchedulerConfigPath: schedulerConfig,
		MetricsCollectorConfig: metricsToCollect{Metrics: map[string][]labelValues{
			AttemptMetric: {{Label: "result", Values: []string{"scheduled"}}},
		}},
		WorkloadTemplate: c.WorkloadTemplate,
		Workloads:        []upstreamWorkload{{Name: w.Name, Labels: []string{"performance"}, Params: w.Params}},
	}})
}
