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

// Namespace is where the measured pods of every workload are created.
const Namespace = "test"

// Case is a kind of work: a sequence of scheduler_perf's operations, and the
// workloads that run it with different parameters.
type Case struct {
	Name string `json:"name"`
	// Slices are templates of the ResourceSlices that each node's driver publishes.
	// They are executed as scheduler_perf executes templates of its own, with the
	// node's number as .Index.
	Slices []string `json:"slices,omitempty"`
	// NodesPerSlice is the number of nodes that share the slices, which then have the
	// number of these nodes' group as .Index; 1 if unset.
	NodesPerSlice int `json:"nodesPerSlice,omitempty"`
	// MoreSlices are those of drivers whose devices other numbers of nodes reach.
	MoreSlices []SharedSlices `json:"moreSlices,omitempty"`
	// Occupied is how the claims look that occupy devices before the measurement.
	Occupied Occupied `json:"occupied,omitempty"`
	// FeatureGates, WorkloadTemplate are those of scheduler_perf.
	FeatureGates     map[string]bool  `json:"featureGates,omitempty"`
	WorkloadTemplate []map[string]any `json:"workloadTemplate"`
	Workloads        []Workload       `json:"workloads"`
	// MeasurePublishing has the slices published not after the first createNodes, but
	// after the second one, and that measured. There are no pods then, and the second
	// createNodes creates no node.
	MeasurePublishing bool `json:"measurePublishing,omitempty"`
	// VictimsPerPod is how many pods have to be evicted for each measured pod, no fewer and
	// no more; 0 if none. What is measured then is preemption, which has a table of its own.
	VictimsPerPod int `json:"victimsPerPod,omitempty"`
	// InTreeTemplate is what is run with the in-tree plugin instead of WorkloadTemplate, and
	// without slices, where it cannot do with devices what is measured.
	InTreeTemplate []map[string]any `json:"inTreeTemplate,omitempty"`
	// Gangs is set if what is measured are gangs, which have a table of their own.
	Gangs *Gangs `json:"gangs,omitempty"`
}

// InTree is the case as it is run with the in-tree plugin.
func (c Case) InTree() Case {
	if len(c.InTreeTemplate) > 0 {
		c.WorkloadTemplate, c.Slices, c.MoreSlices = c.InTreeTemplate, nil, nil
	}
	return c
}

// SharedSlices are templates of ResourceSlices for so many nodes each, with the number of these nodes' group as .Index.
type SharedSlices struct {
	Templates     []string `json:"templates"`
	NodesPerSlice int      `json:"nodesPerSlice"`
}

// Occupied describes claims that hold devices although no pod uses them.
type Occupied struct {
	// DevicesPerClaim is the number of devices, of one node, that each claim holds;
	// 1 if unset.
	DevicesPerClaim int `json:"devicesPerClaim,omitempty"`
	// ClaimsPerNode is the most claims that get devices of the same node; as many
	// as there are devices for if unset. Devices that draw on the same counters
	// need it: they cannot all be taken.
	ClaimsPerNode int `json:"claimsPerNode,omitempty"`
}

// Workload is one line of the result.
type Workload struct {
	Name string `json:"name"`
	// Short workloads are those of `make bench-short`.
	Short bool `json:"short,omitempty"`
	// OccupiedClaims is the number of claims that hold devices beforehand.
	OccupiedClaims int `json:"occupiedClaims,omitempty"`
	// Gangs are those of the workload, in this order.
	Gangs []Gang `json:"gangs,omitempty"`
	// FeatureGates are those that differ from the case's.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Timeout is how long it may take to schedule the pods of one operation; the ten
	// minutes of scheduler_perf if unset.
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

// check finds what would make two results indistinguishable.
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

// FullName is how a workload is called on the command line and in the table.
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

// Upstream is the configuration for scheduler_perf that runs one workload with the
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
