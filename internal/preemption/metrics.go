package preemption

import k8smetrics "k8s.io/component-base/metrics"

const metricsSubsystem = "quartermaster"

var released = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
	Subsystem: metricsSubsystem, Name: "released_claims_total", StabilityLevel: k8smetrics.ALPHA,
	Help: "Claims that the scheduler has deallocated because a preemptor waited for their devices and all of their consumers were gone, before the resourceclaim controller did.",
})

// RegisterMetrics makes the metrics known, so that their series exist before the first event.
func RegisterMetrics(register func(...k8smetrics.Registerable)) { register(released) }
