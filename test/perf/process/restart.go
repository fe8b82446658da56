package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// restartScenario is a pod that waits while there is no scheduler.
var restartScenario = scenario{
	name:  "restart",
	title: "A pod with a claim waits when the process starts",
	columns: []column{
		{title: "first pod s", format: "%.2f"},
		{title: "CPU to first pod s", format: "%.2f"},
	},
	measure: func(ctx context.Context, s *session) ([]float64, error) {
		var elapsed, cpu time.Duration
		for range s.options.rounds {
			tookElapsed, tookCPU, err := restart(ctx, s)
			if err != nil {
				return nil, err
			}
			elapsed += tookElapsed
			cpu += tookCPU
		}
		rounds := float64(s.options.rounds)
		return []float64{elapsed.Seconds() / rounds, cpu.Seconds() / rounds}, nil
	},
}

// restart returns how long it takes from the start of the process until a pod is bound
// that has waited for it, and the CPU time. If the pod is bound before the process has
// answered that it is ready, the CPU time is that until it has, less than a tenth of a
// second later.
func restart(ctx context.Context, s *session) (elapsed, cpu time.Duration, err error) {
	if err := s.process.Stop(); err != nil {
		return 0, 0, err
	}
	counter, done, err := countScheduled(ctx, s.client, 1)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	if err := cluster.CreatePods(ctx, s.client, workload.Namespace, s.pod, 1); err != nil {
		return 0, 0, err
	}
	// The claim is made by a controller, whose time is not the scheduler's.
	err = wait.PollUntilContextTimeout(ctx, pollInterval, podTimeout, true, func(ctx context.Context) (bool, error) {
		claims, err := s.client.ResourceV1().ResourceClaims(workload.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(claims.Items) == 1, err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the claim of the pod that is to wait: %w; the control plane's log is in %s", err, s.options.results)
	}
	begin := time.Now()
	if err := s.process.Restart(ctx); err != nil {
		return 0, 0, err
	}
	end, err := s.await(ctx, counter)
	if err != nil {
		return 0, 0, err
	}
	if cpu, err = cpuTime(s.process.PID()); err != nil {
		return 0, 0, err
	}
	return end.Sub(begin), cpu, s.removePods(ctx)
}
