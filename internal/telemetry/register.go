// Package telemetry has metrics about the scheduler's state: devices by state, free devices on nodes, waiting
// pods by cause. They are computed at each scrape from existing state, and no attempt to schedule a pod waits for
// that.
package telemetry

import (
	"k8s.io/component-base/metrics/legacyregistry"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

const metricsSubsystem = "quartermaster"

// Scheduler gives access to one scheduler's state. A process usually has one.
type Scheduler struct {
	State *cluster.State
	// Guard says whether a guard is in place.
	Guard Guard
	// Waiting has the waiting pods of each profile.
	Waiting []*queue.Pods
}

// Guard is the guard of a cluster.
type Guard interface {
	// InPlace reports whether it decides about all allocations.
	InPlace() bool
}

// Register registers the metrics. all returns the schedulers of the process; it is called at each scrape.
func Register(all func() []Scheduler) {
	legacyregistry.RawMustRegister(
		k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "allocations_in_flight", StabilityLevel: k8smetrics.ALPHA,
			Help: "Allocations that were planned (Reserve), and not yet confirmed by the API server as written or rolled back.",
		}, func() float64 { return inFlight(all()) }),
		k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: metricsSubsystem, Name: "guard_in_place", StabilityLevel: k8smetrics.ALPHA,
			Help: "1 if a guard decides about all allocations, so that no claim settles beside other schedulers; else 0.",
		}, func() float64 { return guarded(all()) }),
	)
	legacyregistry.CustomMustRegister(newCollector(all))
}

// inFlight counts the allocations in flight.
func inFlight(all []Scheduler) float64 {
	n := 0
	for _, s := range all {
		n += s.State.Ledger.InFlightCount()
	}
	return float64(n)
}

// guarded is 1 if all schedulers have a guard in place.
func guarded(all []Scheduler) float64 {
	for _, s := range all {
		if !s.Guard.InPlace() {
			return 0
		}
	}
	return 1
}
