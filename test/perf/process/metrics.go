package main

import (
	"bytes"
	"fmt"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// algorithmMetric is the time in which a scheduling cycle finds a node for a pod, or does
// not: everything up to Score.
const algorithmMetric = "scheduler_scheduling_algorithm_duration_seconds"

// parseHistogram finds a histogram without labels in what a scheduler answers for /metrics.
func parseHistogram(text []byte, name string) (histogram, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return histogram{}, fmt.Errorf("metrics of the scheduler are not in Prometheus' text format: %w", err)
	}
	metrics := families[name].GetMetric()
	if len(metrics) != 1 || metrics[0].GetHistogram() == nil {
		return histogram{}, fmt.Errorf("metrics of the scheduler: one histogram %s is wanted and there are %d metrics of that name; compare with the metrics of its version",
			name, len(metrics))
	}
	found := metrics[0].GetHistogram()
	result := histogram{sum: found.GetSampleSum()}
	for _, bucket := range found.GetBucket() {
		result.bounds = append(result.bounds, bucket.GetUpperBound())
		result.cumulative = append(result.cumulative, bucket.GetCumulativeCount())
	}
	return result, nil
}
