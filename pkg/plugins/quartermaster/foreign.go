package quartermaster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// foreignCluster implements foreign.Cluster for a profile.
type foreignCluster struct {
	*podclaims.Claims
	*queue.Events
	pl *Quartermaster
}

// SettleTime implements foreign.Cluster. With a guard in place it is zero: the guard prevents the server from storing
// anything in conflict with what is stored.
func (c foreignCluster) SettleTime() time.Duration {
	if c.pl.state.guard.InPlace() {
		return 0
	}
	return c.pl.args.SettleTime.Duration
}

// ClaimToMake implements foreign.Cluster.
func (c foreignCluster) ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim {
	return c.pl.needs.Of(pod).ToMake()
}

// Prepare implements foreign.Cluster.
func (c foreignCluster) Prepare(claim *resourceapi.ResourceClaim) *allocator.Task {
	return c.pl.solver.Prepare([]*resourceapi.ResourceClaim{claim})
}
