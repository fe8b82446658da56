package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

// keptAnnotations lists the annotations that matter for devices.
var keptAnnotations = []string{resourceapi.PodResourceClaimAnnotation, resourceapi.ExtendedResourceClaimAnnotation, conversion.Annotation}

// Slim returns copies of the objects as in a dump: without unneeded data, above all data that may
// be secret. It removes annotations (kubectl leaves whole manifests there) and data for drivers.
func Slim(o Objects) Objects {
	o.Nodes = mapped(o.Nodes, func(n *v1.Node) {
		n.Status = v1.NodeStatus{
			Allocatable: n.Status.Allocatable, Capacity: n.Status.Capacity, Conditions: n.Status.Conditions,
			DeclaredFeatures: n.Status.DeclaredFeatures,
		}
	})
	o.Pods = mapped(o.Pods, slimPod)
	o.Slices = mapped(o.Slices, nothing)
	o.Claims = mapped(o.Claims, slimClaim)
	o.Templates = mapped(o.Templates, func(t *resourceapi.ResourceClaimTemplate) {
		t.Spec.Annotations = kept(t.Spec.Annotations)
		slimConfig(t.Spec.Spec.Devices.Config, func(c *resourceapi.DeviceClaimConfiguration) *resourceapi.DeviceConfiguration {
			return &c.DeviceConfiguration
		})
	})
	o.Classes = mapped(o.Classes, func(c *resourceapi.DeviceClass) {
		slimConfig(c.Spec.Config, func(c *resourceapi.DeviceClassConfiguration) *resourceapi.DeviceConfiguration {
			return &c.DeviceConfiguration
		})
	})
	o.TaintRules = mapped(o.TaintRules, nothing)
	return o
}

func nothing[T any](*T) {}

func slimClaim(c *resourceapi.ResourceClaim) {
	slimConfig(c.Spec.Devices.Config, func(c *resourceapi.DeviceClaimConfiguration) *resourceapi.DeviceConfiguration {
		return &c.DeviceConfiguration
	})
	if allocation := c.Status.Allocation; allocation != nil {
		slimConfig(allocation.Devices.Config, func(c *resourceapi.DeviceAllocationConfiguration) *resourceapi.DeviceConfiguration {
			return &c.DeviceConfiguration
		})
	}
	for i := range c.Status.Devices {
		c.Status.Devices[i].Data, c.Status.Devices[i].NetworkData = nil, nil
	}
}

// slimConfig removes the parameters of configurations, which only users and drivers need.
func slimConfig[T any](configs []T, of func(*T) *resourceapi.DeviceConfiguration) {
	for i := range configs {
		if opaque := of(&configs[i]).Opaque; opaque != nil {
			opaque.Parameters = runtime.RawExtension{Raw: []byte("{}")}
		}
	}
}

// slimPod keeps only the fields that decide where a pod can go, and nothing that may be secret.
func slimPod(p *v1.Pod) {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			containers[i] = v1.Container{Name: c.Name, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		}
	}
	p.Spec = v1.PodSpec{
		InitContainers: p.Spec.InitContainers, Containers: p.Spec.Containers, Volumes: slimVolumes(p.Spec.Volumes),
		NodeName: p.Spec.NodeName, NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity, Tolerations: p.Spec.Tolerations,
		TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, HostNetwork: p.Spec.HostNetwork,
		SchedulerName: p.Spec.SchedulerName, SchedulingGates: p.Spec.SchedulingGates, SchedulingGroup: p.Spec.SchedulingGroup,
		PriorityClassName: p.Spec.PriorityClassName, Priority: p.Spec.Priority, PreemptionPolicy: p.Spec.PreemptionPolicy,
		RestartPolicy: p.Spec.RestartPolicy, RuntimeClassName: p.Spec.RuntimeClassName, Overhead: p.Spec.Overhead,
		Resources: p.Spec.Resources, ResourceClaims: p.Spec.ResourceClaims,
	}
	p.Status = v1.PodStatus{
		Phase: p.Status.Phase, Conditions: p.Status.Conditions, NominatedNodeName: p.Status.NominatedNodeName,
		ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: p.Status.NodeAllocatableResourceClaimStatuses,
		StartTime:                            p.Status.StartTime, Resources: p.Status.Resources, AllocatedResources: p.Status.AllocatedResources,
		ContainerStatuses: slimStatuses(p.Status.ContainerStatuses), InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses),
	}
}

// slimVolumes keeps the volumes that some nodes may not reach, with only their references.
func slimVolumes(volumes []v1.Volume) []v1.Volume {
	var left []v1.Volume
	for _, volume := range volumes {
		if !isBoundLater(volume) {
			continue
		}
		slim := v1.Volume{Name: volume.Name}
		if slim.PersistentVolumeClaim = volume.PersistentVolumeClaim; volume.Ephemeral != nil {
			slim.Ephemeral = &v1.EphemeralVolumeSource{}
		}
		left = append(left, slim)
	}
	return left
}

// slimStatuses keeps the resources of containers that are resized (KEP-1287).
func slimStatuses(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	var left []v1.ContainerStatus
	for _, status := range statuses {
		if status.Resources != nil || status.AllocatedResources != nil {
			left = append(left, v1.ContainerStatus{Name: status.Name, Resources: status.Resources, AllocatedResources: status.AllocatedResources})
		}
	}
	return left
}

// mapped returns copies of objects, each changed by a function.
func mapped[T any, P interface {
	object[T]
	DeepCopy() *T
}](all []*T, change func(*T)) []*T {
	result := make([]*T, len(all))
	for i, one := range all {
		result[i] = P(one).DeepCopy()
		P(result[i]).SetManagedFields(nil)
		P(result[i]).SetAnnotations(kept(P(result[i]).GetAnnotations()))
		change(result[i])
	}
	return result
}

func kept(annotations map[string]string) map[string]string {
	var left map[string]string
	for _, key := range keptAnnotations {
		if value, has := annotations[key]; has {
			if left == nil {
				left = make(map[string]string)
			}
			left[key] = value
		}
	}
	return left
}
