package nodeallocatable

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// handle gives the plugin the world instead of the cluster.
type handle struct {
	fwk.Handle
	world     *world
	informers informers.SharedInformerFactory
}

// SharedDRAManager implements fwk.Handle.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return h.world }

// SharedInformerFactory implements fwk.Handle.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// world has the claims of one pod with their allocations, and the devices in these. The plugin looks at the rest of the
// manager only for claims to allocate, and the world has none.
type world struct {
	fwk.SharedDRAManager
	claims map[string]*resourceapi.ResourceClaim
	slices []*resourceapi.ResourceSlice
}

// ResourceClaims implements fwk.SharedDRAManager.
func (w *world) ResourceClaims() fwk.ResourceClaimTracker {
	return claimsOf{w.SharedDRAManager.ResourceClaims(), w}
}

// ResourceSlices implements fwk.SharedDRAManager.
func (w *world) ResourceSlices() fwk.ResourceSliceLister { return w }

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (w *world) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return w.slices, nil
}

// claimsOf are the claims of a world.
type claimsOf struct {
	fwk.ResourceClaimTracker
	world *world
}

// Get implements fwk.ResourceClaimTracker.
func (c claimsOf) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := c.world.claims[name]; claim != nil && claim.Namespace == namespace {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s/%s is not among those that the attempt to schedule the pod began with; trying again", namespace, name)
}

// enter makes the world that of an account. The mutex must be held.
func (a *Accountant) enter(account *Account) {
	a.world.claims, a.world.slices = account.claims, nil
	type pool struct{ driver, name string }
	slices := make(map[pool]*resourceapi.ResourceSlice)
	for _, claim := range account.claims {
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			device := a.devices(result)
			if device == nil {
				continue
			}
			id := pool{result.Driver, result.Pool}
			if slices[id] == nil {
				// Whether the node reaches the devices was decided before.
				slices[id] = &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
					Driver: id.driver, Pool: resourceapi.ResourcePool{Name: id.name, ResourceSliceCount: 1}, AllNodes: ptr.To(true),
				}}
				a.world.slices = append(a.world.slices, slices[id])
			}
			slices[id].Spec.Devices = append(slices[id].Spec.Devices, *device)
		}
	}
}
