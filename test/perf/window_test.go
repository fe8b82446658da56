package perf

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1 "k8s.io/kube-scheduler/config/v1"
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

	mutex sync.Mutex
	// before is the time of each extension point when it began.
	before map[string]time.Duration

	totals timing.Totals
	// points is the time of each extension point, of all plugins.
	points map[string]time.Duration
	// heap is by how much live objects grew, in bytes.
	heap int64
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
	w.recorder.OnFirst(func() {
		if err := w.begin(); err != nil {
			tCtx.TB().Errorf("%v", err)
		}
	})
	heapBefore := liveHeap()
	tCtx.TB().Cleanup(func() {
		w.totals = w.recorder.Totals()
		after, err := extensionPoints()
		if err != nil {
			tCtx.TB().Errorf("%v", err)
		}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.points = make(map[string]time.Duration)
		for point, took := range after {
			w.points[point] = took - w.before[point]
		}
		w.heap = liveHeap() - heapBefore
	})
	return nil
}

// begin takes what the extension points have taken so far: what comes later is measured.
func (w *window) begin() error {
	points, err := extensionPoints()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.before = points
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

// extensionPoints is the time of each extension point since the metrics were reset.
func extensionPoints() (map[string]time.Duration, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the scheduler's metrics: %w", err)
	}
	points := make(map[string]time.Duration)
	for _, family := range families {
		if family.GetName() != extensionPointMetric {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "extension_point" {
					points[label.GetValue()] += time.Duration(metric.GetHistogram().GetSampleSum() * float64(time.Second))
				}
			}
		}
	}
	return points, nil
}
