package commit

import (
	"errors"
	"time"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
)

const metricsSubsystem = "quartermaster"

// Stages in which a pod waits around the writes to its claims.
const (
	stageRoom            = "room"              // for the writes of earlier pods, if there are many
	stagePreWriteSettle  = "pre-write-settle"  // before the writes, for those of non-participating schedulers
	stageWatchCatchup    = "watch-catchup"     // after the writes, for the watch to show them
	stagePoolComplete    = "pool-complete"     // for drivers to publish the pools that the check needs
	stagePostWriteSettle = "post-write-settle" // after the writes, for those of non-participating schedulers
)

const (
	allocatedByOurs  = "quartermaster"
	allocatedByOther = "other"
)

var (
	rollbacks = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "rollbacks_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Claims that were rolled back before their pod was bound because a conflicting claim was allocated first. allocated_by is the scheduler that allocated that one: quartermaster or other.",
	}, []string{"allocated_by"})
	waits = k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Subsystem: metricsSubsystem, Name: "commit_wait_seconds", StabilityLevel: k8smetrics.ALPHA,
		Help:    "How long pods wait before they are bound, by stage. room: in the scheduling cycle, because the claims of many pods are being written; only if pods have to wait for that. pre-write-settle and post-write-settle: for writes of non-participating schedulers, before and after the claims of the pod are allocated. watch-catchup: for the watch of claims to show the last write to them. pool-complete: for drivers to publish all slices of a pool, without which it is not known whether claims are in conflict; only if pods have to wait for that.",
		Buckets: k8smetrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"stage"})
)

// RegisterMetrics makes the metrics known, so that their series exist before the first event.
func RegisterMetrics(register func(...k8smetrics.Registerable)) {
	register(rollbacks, waits)
	for _, by := range []string{allocatedByOurs, allocatedByOther} {
		rollbacks.WithLabelValues(by)
	}
	for _, stage := range []string{stageRoom, stagePreWriteSettle, stageWatchCatchup, stagePoolComplete, stagePostWriteSettle} {
		waits.WithLabelValues(stage)
	}
}

func countRollback(conflict allocationlog.Conflict) {
	by := allocatedByOurs
	if conflict.Other.Foreign {
		by = allocatedByOther
	}
	rollbacks.WithLabelValues(by).Inc()
}

// observe records the duration of a stage that began at the given time.
func observe(stage string, begin time.Time) { observeWait(stage, time.Since(begin)) }

func observeWait(stage string, duration time.Duration) {
	waits.WithLabelValues(stage).Observe(duration.Seconds())
}

// CauseOf returns why a pod waits if its claims could not be committed.
func CauseOf(err error) reasons.Cause {
	if errors.Is(err, ErrConflict) {
		return reasons.Conflict
	}
	return reasons.CommitFailed
}
