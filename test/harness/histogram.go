package harness

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// Histogram maps bounds, in seconds, to the number of observed values that do not exceed them.
// The zero value has no observations.
type Histogram map[float64]float64

// Histogram adds up the samples of a histogram that have all the labels, as Samples does.
func (m Metrics) Histogram(name string, labels ...string) Histogram {
	h := Histogram{}
	for sample := range m.Samples(name+"_bucket", labels...) {
		if le, err := strconv.ParseFloat(string(sample.Metric[model.BucketLabel]), 64); err == nil {
			h[le] += float64(sample.Value)
		}
	}
	return h
}

// Add adds the observations of another histogram with the same bounds.
func (h Histogram) Add(other Histogram) {
	for le, count := range other {
		h[le] += count
	}
}

// Since returns the observations after an earlier state.
func (h Histogram) Since(before Histogram) Histogram {
	since := Histogram{}
	for le, count := range h {
		since[le] = count - before[le]
	}
	return since
}

// Count returns the number of values.
func (h Histogram) Count() int { return int(h[math.Inf(1)]) }

// Quantile estimates the value below which the fraction q of all values is, assuming
// that values are spread evenly between two bounds. It is 0 if there are none, and the
// highest finite bound if it is above that.
func (h Histogram) Quantile(q float64) time.Duration {
	bounds := make([]float64, 0, len(h))
	for le := range h {
		bounds = append(bounds, le)
	}
	slices.SortFunc(bounds, cmp.Compare[float64])
	rank := q * h[math.Inf(1)]
	lower, below := 0.0, 0.0
	for _, le := range bounds {
		if h[le] >= rank && h[le] > below {
			if math.IsInf(le, 1) {
				break
			}
			lower += (le - lower) * (rank - below) / (h[le] - below)
			break
		}
		if !math.IsInf(le, 1) {
			lower, below = le, h[le]
		}
	}
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(lower * float64(time.Second)).Round(100 * time.Microsecond)
}

// String returns the number of values, the median and the 99th percentile.
func (h Histogram) String() string {
	if h.Count() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d times, p50 %s, p99 %s", h.Count(), h.Quantile(0.5), h.Quantile(0.99))
}
