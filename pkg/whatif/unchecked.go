package whatif

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// unchecked lists what a pod asks for that is not checked.
func unchecked(pod *v1.Pod) []string {
	var all []string
	add := func(asked bool, what string) {
		if asked {
			all = append(all, what)
		}
	}
	add(slices.ContainsFunc(pod.Spec.Containers, usesHostPorts) || slices.ContainsFunc(pod.Spec.InitContainers, usesHostPorts), "host ports")
	add(slices.ContainsFunc(pod.Spec.Volumes, isBoundLater), "volumes")
	add(len(pod.Spec.TopologySpreadConstraints) > 0, "topology spread constraints")
	if affinity := pod.Spec.Affinity; affinity != nil {
		add(affinity.PodAffinity != nil, "pod affinity")
		add(affinity.PodAntiAffinity != nil, "pod anti-affinity")
	}
	add(len(pod.Spec.SchedulingGates) > 0, "scheduling gates")
	return all
}

func usesHostPorts(container v1.Container) bool {
	return slices.ContainsFunc(container.Ports, func(p v1.ContainerPort) bool { return p.HostPort != 0 })
}

// isBoundLater reports whether some nodes may not reach a volume.
func isBoundLater(volume v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
}

// appendMissing appends the strings that are not in the list yet.
func appendMissing(all, more []string) []string {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
