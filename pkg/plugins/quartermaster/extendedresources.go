package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// extendedResources returns the resources in the pod's requests that a device
// class stands for (KEP-5004). NodeResourcesFit leaves these to the plugin for
// devices on all nodes where no device plugin offers them. This one cannot serve
// them, so it must keep the pod from such nodes: it would run without devices.
func (pl *Quartermaster) extendedResources(pod *v1.Pod) []v1.ResourceName {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	var names []v1.ResourceName
	for name, quantity := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		if !quantity.IsZero() && util.IsDRAExtendedResourceName(name) &&
			pl.handle.SharedDRAManager().DeviceClassResolver().GetDeviceClass(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// filterExtendedResources lets the pod only on nodes where a device plugin offers
// the extended resources.
func (pl *Quartermaster) filterExtendedResources(c *cycle, nodeInfo fwk.NodeInfo) *fwk.Status {
	for _, name := range c.extendedResources {
		if nodeInfo.GetAllocatable().GetScalarResources()[name] == 0 {
			return waiting("extended resource %s would have to be served by a device class on this node, "+
				"which this scheduler does not support; claim the devices with a ResourceClaim", name)
		}
	}
	return nil
}
