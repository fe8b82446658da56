package commitrunner

import (
	"time"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
)

const metricsSubsystem = "quartermaster"

// What a pod waits for around the writes to its claims.
const (
	stagePreWriteSettle  = "pre-write-settle"  // before, for writes of non-participating schedulers
	stageWatchCatchup    = "watch-catchup"     // afterwards, for the watch to show the write
	stagePoolComplete    = "pool-complete"     // for drivers to publish the pools by which it is judged
	stagePostWriteSettle = "post-write-settle" // and again for writes of non-participating schedulers
)

const (
	allocatedByOurs  = "quartermaster"
	allocatedByOther = "other"
)

var (
	rollbacks = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "rollbacks_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Claims that were rolled back before their pod was bound because a conflicting claim holds the same. allocated_by is who allocated that one: quartermaster or other.",
	}, []string{"allocated_by"})
	waits = k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Subsystem: metricsSubsystem, Name: "commit_wait_seconds", StabilityLevel: k8smetrics.ALPHA,
		Help:    "How long pods wait before they are bound: for writes of non-participating schedulers before their claims are allocated (pre-write-settle), for the watch to show the last write to their claims (watch-catchup), for drivers to publish pools completely by which claims have to be judged (pool-complete; only if they have to wait), and for writes of non-participating schedulers after that (post-write-settle).",
		Buckets: k8smetrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"stage"})
)

// RegisterMetrics makes the metrics known, so that their series exist before the first event.
func RegisterMetrics(register func(...k8smetrics.Registerable)) {
	register(rollbacks, waits)
	for _, by := range []string{allocatedByOurs, allocatedByOther} {
		rollbacks.WithLabelValues(by)
	}
	for _, stage := range []string{stagePreWriteSettle, stageWatchCatchup, stagePoolComplete, stagePostWriteSettle} {
		waits.WithLabelValues(stage)
	}
}

func countRollback(conflict claimlog.Conflict) {
	by := allocatedByOurs
	if conflict.Other.Foreign {
		by = allocatedByOther
	}
	rollbacks.WithLabelValues(by).Inc()
}

// observe notes how long a stage took that began at the given time.
func observe(stage string, begin time.Time) { observeWait(stage, time.Since(begin)) }

func observeWait(stage string, duration time.Duration) {
	waits.WithLabelValues(stage).Observe(duration.Seconds())
}
