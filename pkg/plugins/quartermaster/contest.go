package quartermaster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
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

// contestedCluster implements foreign.Cluster.
type contestedCluster struct {
	*podclaims.Claims
	*queue.Events
	solver    *allocator.Solver
	resources func(*v1.Pod) []extended.Resource
}

// ClaimToMake implements foreign.Cluster.
func (c contestedCluster) ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim {
	backed := extended.Backed(c.resources(pod))
	if len(backed) == 0 {
		return nil
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, UID: pod.UID},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: extended.RequestsFor(pod, backed).Devices}},
	}
}

// Prepare implements foreign.Cluster.
func (c contestedCluster) Prepare(claim *resourceapi.ResourceClaim) *allocator.Task {
	return c.solver.Prepare([]*resourceapi.ResourceClaim{claim})
}
