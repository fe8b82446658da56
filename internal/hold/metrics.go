package hold

import (
	"time"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const metricsSubsystem = "quartermaster"

var (
	heldDevices = k8smetrics.NewGauge(&k8smetrics.GaugeOpts{
		Subsystem: metricsSubsystem, Name: "held_devices", StabilityLevel: k8smetrics.ALPHA,
		Help: "Devices that are held for pods that have waited for longer than holdAfter and for bookings, in use by others or not.",
	})
	idleSeconds = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "held_idle_device_seconds_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Device-seconds for which held devices were not in use.",
	})
	waitsEnded = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "waits_ended_by_holds_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Pods that were bound to the node where devices were held for them.",
	})
)

// RegisterMetrics makes the metrics known, so that their series exist before the first event.
func RegisterMetrics(register func(...k8smetrics.Registerable)) {
	register(heldDevices, idleSeconds, waitsEnded)
}

// Measure counts the held devices, and adds the time since the last call for those that are not in use.
func (r *Registry) Measure(usage ledger.View, since time.Duration) {
	held, idle := 0, 0
	for _, h := range r.Holds() {
		for id, names := range ledger.DevicesOf(h.All()...) {
			held += len(names)
			for _, name := range names {
				if !usage.Pool(id).Uses(name) {
					idle++
				}
			}
		}
	}
	heldDevices.Set(float64(held))
	idleSeconds.Add(float64(idle) * since.Seconds())
}
