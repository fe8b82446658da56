package quartermaster

import (
	"sync"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/conflictreport"
)

// pluginMetrics are what the plugin tells besides what the scheduler does.
type pluginMetrics struct {
	rollbacks *k8smetrics.CounterVec
	waits     *k8smetrics.HistogramVec
	inFlight  k8smetrics.GaugeFunc
	once      sync.Once
}

// What a pod waits for around the writes to its claims.
const (
	stagePreWriteSettle  = "pre-write-settle"  // before, for writes of non-participating schedulers
	stageWatchCatchup    = "watch-catchup"     // afterwards, for the watch to show the write
	stagePoolComplete    = "pool-complete"     // for drivers to publish the pools by which it is judged
	stagePostWriteSettle = "post-write-settle" // and again for writes of non-participating schedulers
)

const metricsSubsystem = "quartermaster"

// metrics are those of all profiles of the scheduler.
var metrics = &pluginMetrics{
	rollbacks: k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "rollbacks_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Claims that were rolled back before their pod was bound because a conflicting claim holds the same. allocated_by is who allocated that one: quartermaster or other.",
	}, []string{"allocated_by"}),
	waits: k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Subsystem: metricsSubsystem, Name: "commit_wait_seconds", StabilityLevel: k8smetrics.ALPHA,
		Help:    "How long pods wait before they are bound: for writes of non-participating schedulers before their claims are allocated (pre-write-settle), for the watch to show the last write to their claims (watch-catchup), for drivers to publish pools completely by which claims have to be judged (pool-complete; only if they have to wait), and for writes of non-participating schedulers after that (post-write-settle).",
		Buckets: k8smetrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"stage"}),
	inFlight: k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
		Subsystem: metricsSubsystem, Name: "allocations_in_flight", StabilityLevel: k8smetrics.ALPHA,
		Help: "Allocations that were decided but are not known to be written or given up.",
	}, allInFlight),
}

// register makes the metrics known to the process, once.
func (m *pluginMetrics) register() {
	m.once.Do(func() {
		legacyregistry.MustRegister(conflictreport.Conflicts, m.rollbacks, conflictreport.Evictions, m.waits)
		legacyregistry.RawMustRegister(m.inFlight)
		// So that the series exist before the first event.
		for _, by := range []string{allocatedByOurs, allocatedByOther} {
			m.rollbacks.WithLabelValues(by)
		}
		for _, stage := range []string{stagePreWriteSettle, stageWatchCatchup, stagePoolComplete, stagePostWriteSettle} {
			m.waits.WithLabelValues(stage)
		}
	})
}

const (
	allocatedByOurs  = "quartermaster"
	allocatedByOther = "other"
)

func (m *pluginMetrics) rollback(conflict claimlog.Conflict) {
	by := allocatedByOurs
	if conflict.Other.Foreign {
		by = allocatedByOther
	}
	m.rollbacks.WithLabelValues(by).Inc()
}

// observe notes how long a stage took that began at the given time.
func (m *pluginMetrics) observe(stage string, begin time.Time) {
	m.waited(stage, time.Since(begin))
}

// waited notes how long a stage took.
func (m *pluginMetrics) waited(stage string, duration time.Duration) {
	m.waits.WithLabelValues(stage).Observe(duration.Seconds())
}

// allInFlight counts the allocations in flight of all schedulers in this process.
func allInFlight() float64 {
	states.Lock()
	defer states.Unlock()
	n := 0
	for _, state := range states.byFactory {
		n += state.Ledger.InFlightCount()
	}
	return float64(n)
}
