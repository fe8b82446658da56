package perf

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
)

// extensionPointMetric is the duration of an extension point over all plugins, and
// for Filter over all nodes, once for each pod.
const extensionPointMetric = "scheduler_framework_extension_point_duration_seconds"

// cyclePoints are the extension points of a scheduling cycle. Until Reserve has
// returned, the scheduler cannot begin with the next pod.
var cyclePoints = []string{
	metrics.PreFilter, metrics.Filter, metrics.PostFilter, metrics.PreScore, metrics.Score, metrics.Reserve,
}

// window is what happens in a scheduler from when the first measured pod gets into its
// queue, or from its start if there is none, until the end of the workload, while it
// still runs.
type window struct {
	recorder *timing.Recorder
	// evictions is nil unless preemption is measured.
	evictions *timing.Evictions

	mutex sync.Mutex
	// before is the time of each extension point when it began, dryRunsBefore the dry runs.
	before        map[string]time.Duration
	dryRunsBefore timing.Total

	totals timing.Totals
	// points is the time of each extension point, of all plugins.
	points map[string]time.Duration
	// preemption is what evictions and dryRuns came to.
	preemption preemption
	// heap is by how much live objects grew, in bytes.
	heap int64
}

// preemption is what a workload in which pods evict others came to.
type preemption struct {
	// dryRuns are the calls of PostFilter, of all plugins, that found victims.
	dryRuns timing.Total
	// bound is the number of measured pods that were bound, elapsed from when the first one got
	// into the queue until the last one was bound.
	bound   int64
	elapsed time.Duration
	victims int64
}

// open runs when the scheduler has started. The cleanup runs before the scheduler is
// stopped, because what is cleaned up last was set up first.
func (w *window) open(tCtx ktesting.TContext) error {
	if err := checkClientLimit(tCtx.RESTConfig()); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	if w.evictions != nil {
		pods := w.recorder.Handle().SharedInformerFactory().Core().V1().Pods().Informer()
		if _, err := pods.AddEventHandler(w.evictions); err != nil {
			return fmt.Errorf("watch who is evicted: %w", err)
		}
	}
	w.recorder.OnFirst(func() {
		if err := w.begin(); err != nil {
			tCtx.TB().Errorf("%v", err)
		}
	})
	heapBefore := liveHeap()
	tCtx.TB().Cleanup(func() {
		w.totals = w.recorder.Totals()
		after, dryRuns, err := extensionPoints()
		if err != nil {
			tCtx.TB().Errorf("%v", err)
		}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.points = make(map[string]time.Duration)
		for point, took := range after {
			w.points[point] = took - w.before[point]
		}
		if w.evictions != nil {
			w.preemption = w.preempted(dryRuns)
		}
		w.heap = liveHeap() - heapBefore
	})
	return nil
}

// preempted is what happened since the window began, of which dryRuns are also those before it.
func (w *window) preempted(dryRuns timing.Total) preemption {
	count, last := w.evictions.Bound()
	return preemption{
		dryRuns: timing.Total{Calls: dryRuns.Calls - w.dryRunsBefore.Calls, Time: dryRuns.Time - w.dryRunsBefore.Time},
		bound:   count,
		elapsed: max(last.Sub(w.recorder.First()), 0),
		victims: w.evictions.Victims(),
	}
}

// begin takes what the extension points have taken so far: what comes later is measured.
func (w *window) begin() error {
	points, dryRuns, err := extensionPoints()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.before, w.dryRunsBefore = points, dryRuns
	return err
}

// checkClientLimit fails unless the scheduler's client has the limit that is shipped.
// scheduler_perf gives it one of its own, whatever the configuration says.
func checkClientLimit(client *rest.Config) error {
	encoded, err := manifests.SchedulerConfig(manifests.ReplaceDefault)
	if err != nil {
		return err
	}
	var shipped configv1.KubeSchedulerConfiguration
	if err := yaml.Unmarshal(encoded, &shipped); err != nil {
		return fmt.Errorf("configuration of overlay %q: %w", manifests.ReplaceDefault, err)
	}
	limit := shipped.ClientConnection
	if client.QPS != limit.QPS || client.Burst != int(limit.Burst) {
		return fmt.Errorf("scheduler_perf gives the scheduler %v requests a second in bursts of %d, the manifests %v and %d; figures would not be what a user gets: make them the same",
			client.QPS, client.Burst, limit.QPS, limit.Burst)
	}
	return nil
}

// liveHeap is what is reachable, in bytes. The second collection finishes what the
// first one left to finalizers.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// cycle is the time of the extension points of the scheduling cycle.
func (w *window) cycle() time.Duration {
	var total time.Duration
	for _, point := range cyclePoints {
		total += w.points[point]
	}
	return total
}

// extensionPoints is the time of each extension point since the metrics were reset, and of
// these the calls of PostFilter that found victims: with SchedulerAsyncPreemption, which is on
// by default, evicting them is no part of it.
func extensionPoints() (map[string]time.Duration, timing.Total, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, timing.Total{}, fmt.Errorf("gather the scheduler's metrics: %w", err)
	}
	points := make(map[string]time.Duration)
	var dryRuns timing.Total
	for _, family := range families {
		if family.GetName() != extensionPointMetric {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := make(map[string]string)
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			point, took := labels["extension_point"], time.Duration(metric.GetHistogram().GetSampleSum()*float64(time.Second))
			points[point] += took
			if point == metrics.PostFilter && labels["status"] == fwk.Success.String() {
				dryRuns.Calls += int64(metric.GetHistogram().GetSampleCount())
				dryRuns.Time += took
			}
		}
	}
	return points, dryRuns, nil
}
