package simulation

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// countingBroadcaster counts the Events about pods that could not be scheduled: one for each attempt, of which client-go sends few.
type countingBroadcaster struct {
	//nolint:staticcheck // SA1019: kube-scheduler still uses it.
	events.EventBroadcasterAdapter
	attempts *atomic.Int64
}

// NewRecorder implements events.EventBroadcasterAdapter.
func (b countingBroadcaster) NewRecorder(name string) events.EventRecorderLogger {
	return countingRecorder{b.EventBroadcasterAdapter.NewRecorder(name), b.attempts}
}

type countingRecorder struct {
	events.EventRecorderLogger
	attempts *atomic.Int64
}

// Eventf implements events.EventRecorder.
func (r countingRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if reason == "FailedScheduling" {
		r.attempts.Add(1)
	}
	r.EventRecorderLogger.Eventf(regarding, related, kind, reason, action, note, args...)
}

// WithLogger implements events.EventRecorderLogger.
func (r countingRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return countingRecorder{r.EventRecorderLogger.WithLogger(logger), r.attempts}
}
