package main

import (
	"context"
	"time"
)

// podsScenario is the plain case: a scheduler is started and pods are created.
var podsScenario = scenario{
	name:  "pods",
	title: "Pods with a claim, after a start",
	columns: []column{
		{title: "pods/s", format: "%.1f"},
		{title: "CPU ms/pod", format: "%.2f"},
		{title: "CPU to start s", format: "%.2f"},
		{title: "heap MiB", format: "%.1f"},
		{title: "resident MiB", format: "%.0f"},
	},
	measure: measurePods,
}

func measurePods(ctx context.Context, s *session) ([]float64, error) {
	pods := s.options.pods
	elapsed, err := s.runPods(ctx, pods)
	if err != nil {
		return nil, err
	}
	ended, err := cpuTime(s.process.PID())
	if err != nil {
		return nil, err
	}
	heap, err := liveHeap(ctx, s.process.Address(), s.file("-heap.txt"))
	if err != nil {
		return nil, err
	}
	if err := contention(ctx, s.process.Address(), s.file); err != nil {
		return nil, err
	}
	resident, err := residentMemory(s.process.PID())
	if err != nil {
		return nil, err
	}
	perPod := (ended - s.started) / time.Duration(pods)
	return []float64{
		float64(pods) / elapsed.Seconds(), milliseconds(perPod), s.started.Seconds(),
		float64(heap) / (1 << 20), float64(resident) / (1 << 20),
	}, s.removePods(ctx)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
