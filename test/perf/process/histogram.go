package main

import (
	"fmt"
	"math"
	"slices"
)

// histogram is the state of a Prometheus histogram. cumulative has, for each bound, the number
// of observations that do not exceed it. The last bound is infinite.
type histogram struct {
	bounds     []float64
	cumulative []uint64
	sum        float64
}

// since returns the observations after an earlier state of the same metric.
func (h histogram) since(before histogram) (histogram, error) {
	return h.combine(before, "subtract", func(a, b uint64) uint64 { return a - b }, h.sum-before.sum)
}

// plus returns the observations of both histograms.
func (h histogram) plus(other histogram) (histogram, error) {
	return h.combine(other, "add", func(a, b uint64) uint64 { return a + b }, h.sum+other.sum)
}

func (h histogram) combine(other histogram, verb string, each func(a, b uint64) uint64, sum float64) (histogram, error) {
	if len(other.bounds) == 0 {
		return h, nil
	}
	if len(h.bounds) > 0 && !slices.Equal(h.bounds, other.bounds) {
		return histogram{}, fmt.Errorf("%s histograms: one has the bounds %v, the other %v; both have to be states of the same metric", verb, h.bounds, other.bounds)
	}
	result := histogram{bounds: other.bounds, cumulative: slices.Clone(h.cumulative), sum: sum}
	if result.cumulative == nil {
		result.cumulative = make([]uint64, len(other.bounds))
	}
	for i, count := range other.cumulative {
		result.cumulative[i] = each(result.cumulative[i], count)
	}
	return result, nil
}

// count returns the number of observations.
func (h histogram) count() uint64 {
	if len(h.cumulative) == 0 {
		return 0
	}
	return h.cumulative[len(h.cumulative)-1]
}

func (h histogram) mean() float64 {
	if h.count() == 0 {
		return 0
	}
	return h.sum / float64(h.count())
}

// quantile estimates the value that a share q of the observations does not exceed, like
// histogram_quantile of Prometheus: it interpolates within a bucket, and returns the lower
// bound of the last bucket, which is infinite.
func (h histogram) quantile(q float64) float64 {
	rank := q * float64(h.count())
	below, lower := uint64(0), 0.0
	for i, count := range h.cumulative {
		if float64(count) >= rank && count > below {
			if math.IsInf(h.bounds[i], 1) {
				return lower
			}
			return lower + (h.bounds[i]-lower)*(rank-float64(below))/float64(count-below)
		}
		below, lower = count, h.bounds[i]
	}
	return 0
}
