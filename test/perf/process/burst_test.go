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

func TestReadingSince(t *testing.T) {
	before := reading{scheduler: time.Second, controlPlane: 5 * time.Second, machine: machineTime{busy: 10 * time.Second, all: 20 * time.Second}}
	after := reading{scheduler: 2 * time.Second, controlPlane: 8 * time.Second, machine: machineTime{busy: 16 * time.Second, all: 40 * time.Second}}
	after.cycles = bucketed(4, 1, 2, 2, 2)
	got, err := after.since(before)
	require.NoError(t, err)
	require.Equal(t, burst{cpu: time.Second, cycles: after.cycles, others: 2 * time.Second, machine: 20 * time.Second}, got)
	require.InDelta(t, 10, got.othersPercent(), 1e-9)
	require.Zero(t, burst{}.othersPercent())
}
