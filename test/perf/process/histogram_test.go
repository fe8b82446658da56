package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func bucketed(sum float64, cumulative ...uint64) histogram {
	return histogram{bounds: []float64{1, 2, 4, math.Inf(1)}, cumulative: cumulative, sum: sum}
}

func TestQuantile(t *testing.T) {
	for name, test := range map[string]struct {
		h    histogram
		q    float64
		want float64
	}{
		"nothing observed":              {histogram{}, 0.99, 0},
		"all buckets empty":             {bucketed(0, 0, 0, 0, 0), 0.99, 0},
		"in the first bucket":           {bucketed(50, 100, 100, 100, 100), 0.5, 0.5},
		"between two bounds":            {bucketed(150, 0, 100, 100, 100), 0.25, 1.25},
		"at a bound":                    {bucketed(150, 50, 100, 100, 100), 0.5, 1},
		"the largest of a hundred":      {bucketed(150, 98, 98, 100, 100), 0.99, 3},
		"empty buckets before are over": {bucketed(300, 0, 0, 100, 100), 0.5, 3},
		"larger than all bounds":        {bucketed(900, 10, 10, 10, 100), 0.99, 4},
	} {
		t.Run(name, func(t *testing.T) { require.InDelta(t, test.want, test.h.quantile(test.q), 1e-9) })
	}
}

func TestSinceAndPlus(t *testing.T) {
	before, after := bucketed(10, 1, 2, 3, 3), bucketed(25, 2, 5, 9, 10)
	delta, err := after.since(before)
	require.NoError(t, err)
	require.Equal(t, bucketed(15, 1, 3, 6, 7), delta)
	require.EqualValues(t, 7, delta.count())
	require.InDelta(t, 15.0/7, delta.mean(), 1e-9)
	require.Equal(t, bucketed(10, 1, 2, 3, 3), before, "operands stay what they are")

	again, err := delta.plus(before)
	require.NoError(t, err)
	require.Equal(t, after, again)
	first, err := histogram{}.plus(before)
	require.NoError(t, err)
	require.Equal(t, before, first)
	unseen, err := after.since(histogram{})
	require.NoError(t, err)
	require.Equal(t, after, unseen)

	_, err = after.since(histogram{bounds: []float64{1}, cumulative: []uint64{0}})
	require.ErrorContains(t, err, "same metric")
	require.Zero(t, histogram{}.mean())
}
