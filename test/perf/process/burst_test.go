package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBurstPlus(t *testing.T) {
	total, err := burst{}.plus(burst{pods: 100, rounds: 1, elapsed: 2 * time.Second, cpu: time.Second, cycles: bucketed(4, 1, 2, 2, 2)})
	require.NoError(t, err)
	total, err = total.plus(burst{pods: 100, rounds: 1, elapsed: 3 * time.Second, cpu: 2 * time.Second, cycles: bucketed(5, 2, 2, 2, 3)})
	require.NoError(t, err)
	require.InDelta(t, 40, total.throughput(), 1e-9, "of all pods, not the mean of two means")
	require.InDelta(t, 1.5, total.cpuSeconds(), 1e-9)
	require.Equal(t, bucketed(9, 3, 4, 4, 5), total.cycles)
}
