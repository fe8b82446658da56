package conflicts

import (
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const metricsSubsystem = "quartermaster"

// Conflicts and Evictions count the reported conflicts and the evictions, by pool. The caller must register them.
var (
	Conflicts = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "device_conflicts_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Conflicts between claims that no scheduler resolved: pairs of claims with the same device, and claims for which others have left too little of a counter or capacity, or no compatibility group.",
	}, []string{"driver", "pool"})
	Evictions = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "conflict_evictions_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Pods that were evicted because their claim is in conflict with one that was allocated first (onConflict: Evict).",
	}, []string{"driver", "pool"})
)

func count(counter *k8smetrics.CounterVec, pool inventory.PoolID) {
	counter.WithLabelValues(pool.Driver, pool.Name).Inc()
}
