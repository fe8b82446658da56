package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseHistogram(t *testing.T) {
	const text = `# HELP h some
# TYPE h histogram
h_bucket{le="0.001"} 3
h_bucket{le="0.002"} 5
h_bucket{le="+Inf"} 6
h_sum 0.25
h_count 6
# TYPE labelled histogram
labelled_bucket{a="1",le="+Inf"} 1
labelled_sum{a="1"} 1
labelled_count{a="1"} 1
labelled_bucket{a="2",le="+Inf"} 1
labelled_sum{a="2"} 1
labelled_count{a="2"} 1
# TYPE c counter
c 7
`
	got, err := parseHistogram([]byte(text), "h")
	require.NoError(t, err)
	require.Equal(t, histogram{bounds: []float64{0.001, 0.002, math.Inf(1)}, cumulative: []uint64{3, 5, 6}, sum: 0.25}, got)
	for _, name := range []string{"labelled", "c", "absent"} {
		_, err = parseHistogram([]byte(text), name)
		require.ErrorContains(t, err, name)
	}
	_, err = parseHistogram([]byte("{"), "h")
	require.ErrorContains(t, err, "text format")
}
