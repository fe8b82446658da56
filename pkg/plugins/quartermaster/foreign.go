package quartermaster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// settleTime returns how long claims settle. With a guard in place it is zero: the guard prevents the server from
// storing anything in conflict with what is stored.
func (pl *Quartermaster) settleTime() time.Duration {
	if pl.state.guard.InPlace() {
		return 0
	}
	return pl.args.SettleTime.Duration
}

// foreignCluster implements foreign.Cluster.
type foreignCluster struct {
	*podclaims.Claims
	*queue.Events
	solver *allocator.Solver
	needs  *eligibility.Finder
}

// ClaimToMake implements foreign.Cluster.
func (c foreignCluster) ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim {
	return c.needs.Of(pod).ToMake()
}

// Prepare implements foreign.Cluster.
func (c foreignCluster) Prepare(claim *resourceapi.ResourceClaim) *allocator.Task {
	return c.solver.Prepare([]*resourceapi.ResourceClaim{claim})
}
