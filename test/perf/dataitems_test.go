package perf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	scheduler_perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

// dataItems are what scheduler_perf has measured.
type dataItems scheduler_perf.DataItems

// value returns 0 if scheduler_perf has not measured that, as for a throughput if
// the run took less than its sampling interval of a second.
func (d dataItems) value(metric, bucket string) float64 {
	for _, item := range d.DataItems {
		if item.Labels["Metric"] == metric {
			return item.Data[bucket]
		}
	}
	return 0
}

func readDataItems(directory string) (dataItems, error) {
	file, err := onlyFile(directory, "*_benchmark_*.json")
	if err != nil {
		return dataItems{}, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return dataItems{}, err
	}
	var items dataItems
	if err := json.Unmarshal(content, &items); err != nil {
		return dataItems{}, fmt.Errorf("%s is not what scheduler_perf should write: %w", file, err)
	}
	return items, nil
}

// onlyFile finds the one file that scheduler_perf has written for a purpose.
func onlyFile(directory, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(directory, pattern))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("scheduler_perf should have written one file %s in %s, there are %d", pattern, directory, len(found))
	}
	return found[0], nil
}
