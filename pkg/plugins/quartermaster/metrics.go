package quartermaster

import (
	"sync"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/conflictreport"
	"github.com/quartermaster-dra/quartermaster/internal/release"
)

// pluginMetrics are what the plugin tells besides what the scheduler does.
type pluginMetrics struct {
	inFlight k8smetrics.GaugeFunc
	guarded  k8smetrics.GaugeFunc
	once     sync.Once
}

const metricsSubsystem = "quartermaster"

// metrics are those of all profiles of the scheduler.
var metrics = &pluginMetrics{
	inFlight: k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
		Subsystem: metricsSubsystem, Name: "allocations_in_flight", StabilityLevel: k8smetrics.ALPHA,
		Help: "Allocations that were planned (Reserve), and of which the API server has not confirmed yet that they were written or rolled back.",
	}, allInFlight),
	guarded: k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
		Subsystem: metricsSubsystem, Name: "guard_in_place", StabilityLevel: k8smetrics.ALPHA,
		Help: "1 if a guard decides about all allocations, so that no claim settles beside other schedulers; else 0.",
	}, guarded),
}

// register makes the metrics known to the process, once.
func (m *pluginMetrics) register() {
	m.once.Do(func() {
		legacyregistry.MustRegister(conflictreport.Conflicts, conflictreport.Evictions)
		commitrunner.RegisterMetrics(legacyregistry.MustRegister)
		release.RegisterMetrics(legacyregistry.MustRegister)
		legacyregistry.RawMustRegister(m.inFlight, m.guarded)
	})
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

// guarded is 1 if all schedulers in this process have a guard in place.
func guarded() float64 {
	states.Lock()
	defer states.Unlock()
	for _, state := range states.byFactory {
		if !state.guard.InPlace() {
			return 0
		}
	}
	return 1
}
