package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics, err := parseMetrics(strings.NewReader(`# HELP wait_seconds [ALPHA] how long "pods" have waited
# TYPE wait_seconds histogram
wait_seconds_bucket{stage="see",le="0.1"} 50
wait_seconds_bucket{stage="see",le="0.2"} 90
wait_seconds_bucket{stage="see",le="+Inf"} 100
wait_seconds_sum{stage="see"} 12
wait_seconds_count{stage="see"} 100
wait_seconds_bucket{stage="other",le="0.1"} 7
wait_seconds_bucket{stage="other",le="+Inf"} 7
wait_seconds_sum{stage="other"} 0.5
wait_seconds_count{stage="other"} 7
# TYPE await_seconds histogram
await_seconds_bucket{stage="see",le="0.1"} 9
await_seconds_bucket{stage="see",le="+Inf"} 9
await_seconds_sum{stage="see"} 0.1
await_seconds_count{stage="see"} 9
# TYPE pods_total counter
pods_total{result="scheduled, see",queue="a"} 3
pods_total{result="error",queue="a"} 4
go_goroutines 17
`))
	require.NoError(t, err)
	require.InDelta(t, 7, metrics.Sum("pods_total", "queue", "a"), 0)
	require.InDelta(t, 3, metrics.Sum("pods_total", "queue", "a", "result", "scheduled, see"), 0)
	require.Zero(t, metrics.Sum("pods_total", "queue", "b"))
	require.InDelta(t, 17, metrics.Sum("go_goroutines"), 0)
	require.InDelta(t, 107, metrics.Sum("wait_seconds_count"), 0)
	require.InDelta(t, 90, metrics.Sum("wait_seconds_bucket", "le", "0.2"), 0)
	_, err = parseMetrics(strings.NewReader("wait_seconds{stage="))
	require.Error(t, err)

	h := metrics.Histogram("wait_seconds", "stage", "see")
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
