// Package nodeallocatable refuses devices that stand for, or need, resources of the node (KEP-5517, gate
// DRANodeAllocatableResources), see docs/node-allocatable.md: what they take is part of what a pod takes in the
// scheduler's cache, and the scheduler asks only the in-tree plugin for that, by the type of its state. With the gate
// off these fields mean nothing, as for the in-tree plugin.
package nodeallocatable

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Warn tells at the start what is not going to be scheduled.
func Warn(logger klog.Logger, gates feature.Features, plugin string) {
	if gates.EnableDRANodeAllocatableResources {
		logger.Info("Devices with nodeAllocatableResources are not allocated, and pods whose claims have such devices are not scheduled: "+
			"only the in-tree plugin DynamicResources can account for what they take of their node",
			"plugin", plugin, "featureGate", features.DRANodeAllocatableResources)
	}
}

// Check refuses a claim that somebody else has allocated such a device for.
// Of devices that are not published any more nobody knows whether they are; the in-tree
// plugin leaves them out as well.
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
				claimname.Of(claim), id, result.Device, resourceNames(device.NodeAllocatableResources))
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
