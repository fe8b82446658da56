package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/bindingcondition"
	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
)

// newDeviceWaiter makes what has pods wait for binding conditions (KEP-5007).
func (pl *Quartermaster) newDeviceWaiter() *bindingcondition.Waiter {
	waiter := &bindingcondition.Waiter{
		Cluster:  knownObjects{pl.claims, pl.state.Order},
		Stopping: pl.stopping,
		Recorder: pl.handle.EventRecorder(),
		Profile:  pl.handle.ProfileName(),
	}
	if pl.args.BindingTimeout != nil {
		waiter.Timeout = pl.args.BindingTimeout.Duration
	}
	return waiter
}

// awaitDevices waits until the devices of all claims are ready, unless the feature is
// off. It comes after the check: whoever waits holds the devices for good.
func (pl *Quartermaster) awaitDevices(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (commitrunner.Readiness, error) {
	if !pl.bindingConditions {
		return commitrunner.Readiness{}, nil
	}
	outcome, err := pl.devices.Await(ctx, pod, node, claims)
	return commitrunner.Readiness(outcome), err
}

// brokenBinding says why nobody should wait (any longer) for the claim's devices, nil if
// there is no reason, or if the feature is off.
func (pl *Quartermaster) brokenBinding(claim *resourceapi.ResourceClaim) error {
	if !pl.bindingConditions {
		return nil
	}
	return bindingcondition.Broken(claim, pl.devices.Timeout)
}

// knownObjects implements bindingcondition.Cluster.
type knownObjects struct {
	*podclaims.Claims
	order *claimlog.Order
}

// Allocated implements bindingcondition.Cluster.
func (o knownObjects) Allocated(claim types.UID) bool { return o.order.Allocated(claim) }

// Reserved implements bindingcondition.Cluster.
func (o knownObjects) Reserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return resourceclaim.IsReservedForPod(pod, claim, o.OfGroups)
}
