package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
)

// ownProfile is a profile as its attempts see it. It implements commit.Profile and preemption.Preemptors.
type ownProfile struct{ *Quartermaster }

// AwaitDevices implements commit.Profile. It waits until the devices of all claims are ready, unless the feature is
// off. It runs after the check: from then on the pod keeps its devices.
func (pl ownProfile) AwaitDevices(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (binding.Outcome, error) {
	if !pl.bindingConditions {
		return binding.Outcome{}, nil
	}
	outcome, err := pl.devices.Await(ctx, pod, node, claims)
	for _, broken := range outcome.Broken {
		pl.failures.Note(pod.UID, outcome.Claims[broken])
	}
	return outcome, err
}

// knownObjects implements binding.Cluster.
type knownObjects struct {
	*podclaims.Claims
	order *allocationlog.Log
}

// Allocated implements binding.Cluster.
func (o knownObjects) Allocated(claim types.UID) bool { return o.order.Allocated(claim) }
