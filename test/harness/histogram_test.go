package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	t.Parallel()
	metrics := Metrics{
		`wait_seconds_bucket{stage="see",le="0.1"}`:    50,
		`wait_seconds_bucket{stage="see",le="0.2"}`:    90,
		`wait_seconds_bucket{stage="see",le="+Inf"}`:   100,
		`wait_seconds_bucket{stage="other",le="0.1"}`:  7,
		`wait_seconds_bucket{stage="other",le="+Inf"}`: 7,
		`wait_seconds_sum{stage="see"}`:                12,
		`await_seconds_bucket{stage="see",le="0.1"}`:   9,
	}
	h := metrics.Histogram("wait_seconds", `stage="see"`)
	require.Equal(t, 100, h.Count())
	require.Equal(t, 50*time.Millisecond, h.Quantile(0.25))
	require.Equal(t, 100*time.Millisecond, h.Quantile(0.5))
	require.Equal(t, 150*time.Millisecond, h.Quantile(0.7))
	require.Equal(t, 200*time.Millisecond, h.Quantile(0.99), "nothing is known above the last bound")
	require.Equal(t, 107, metrics.Histogram("wait_seconds").Count())

	since := h.Since(Histogram{0.1: 50, 0.2: 50})
	require.Equal(t, 100, since.Count())
	require.Equal(t, "none", h.Since(h).String())
	require.Zero(t, Histogram{}.Quantile(0.5))

	both := Histogram{}
	both.Add(h)
	both.Add(h)
	require.Equal(t, 200, both.Count())
	require.Equal(t, "200 times, p50 100ms, p99 200ms", both.String())
}
