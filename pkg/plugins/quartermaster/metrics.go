package quartermaster

import (
	"sync"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/telemetry"
)

// registerMetrics registers the metrics of all profiles, once per process.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(conflicts.Conflicts, conflicts.Evictions)
	commit.RegisterMetrics(legacyregistry.MustRegister)
	preemption.RegisterMetrics(legacyregistry.MustRegister)
	hold.RegisterMetrics(legacyregistry.MustRegister)
	telemetry.Register(schedulers)
})

// schedulers returns the inputs of the metrics, for all schedulers in this process.
func schedulers() (all []telemetry.Scheduler) {
	states.Lock()
	defer states.Unlock()
	for _, state := range states.byFactory {
		scheduler := telemetry.Scheduler{State: state.State, Guard: state.guard}
		state.profilesMutex.Lock()
		for _, profile := range state.profiles {
			scheduler.Waiting = append(scheduler.Waiting, profile.waiting)
		}
		state.profilesMutex.Unlock()
		all = append(all, scheduler)
	}
	return all
}
