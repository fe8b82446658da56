package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Warn logs at the start if such devices are refused everywhere.
func Warn(logger klog.Logger, refused bool, plugin string) {
	if refused {
		logger.Info("Devices with nodeAllocatableResources are not allocated, and pods whose claims have such devices are not scheduled: "+
			"the API server does not serve all resources in v1, and may lack the field of the pod's status that accounts for them",
			"plugin", plugin, "featureGate", kube.DRANodeAllocatableResources)
	}
}

// Check rejects a claim if it has such a device and these are refused. For devices that are no longer published
// it is unknown whether they are such devices; Check ignores them, as the in-tree plugin does.
func Check(claim *resourceapi.ResourceClaim, pools ledger.Pools) error {
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		id := ledger.PoolOf(result)
		pool := pools(id)
		if pool == nil {
			continue
		}
		if device := pool.Device(result.Device); device != nil && len(device.NodeAllocatableResources) > 0 {
			return fmt.Errorf("claim %s: device %s/%s stands for or needs resources of the node (%s) which this scheduler cannot account for; "+
				"the pod needs a scheduler with the in-tree plugin or another device",
				dra.Of(claim), id, result.Device, resourceNames(device.NodeAllocatableResources))
		}
	}
	return nil
}

func resourceNames(resources map[v1.ResourceName]resourceapi.NodeAllocatableResource) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		names = append(names, string(name))
	}
	return strings.Join(names, "; ")
}
