package planning

import (
	"encoding/json"
	"maps"

	v1 "k8s.io/api/core/v1"
)

// shape is what matters to schedulers of a pod apart from its claims.
type shape struct {
	Namespace, SchedulerName   string
	Labels, NodeSelector       map[string]string
	Priority                   *int32
	Affinity                   *v1.Affinity
	Tolerations                []v1.Toleration
	Spread                     []v1.TopologySpreadConstraint
	HostNetwork                bool
	Overhead                   v1.ResourceList
	Resources                  *v1.ResourceRequirements
	Containers, InitContainers []container
	Volumes                    []v1.Volume
	// Pod is the name of a pod with volumes of its own, of which no other pod is a copy.
	Pod string
}

type container struct {
	Resources     v1.ResourceRequirements
	Ports         []v1.ContainerPort
	RestartPolicy *v1.ContainerRestartPolicy
	Image         string
}

// labelsOfOne are labels by which controllers tell pods apart that are alike. Nobody's affinity is about them.
var labelsOfOne = []string{"batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name"}

// shapeOf returns a text that is the same for pods that every plugin judges alike, as long as their claims are.
func shapeOf(pod *v1.Pod) string {
	s := shape{
		Namespace: pod.Namespace, SchedulerName: pod.Spec.SchedulerName, Labels: maps.Clone(pod.Labels), NodeSelector: pod.Spec.NodeSelector,
		Priority: pod.Spec.Priority, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations, Spread: pod.Spec.TopologySpreadConstraints,
		HostNetwork: pod.Spec.HostNetwork, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
		Containers: containersOf(pod.Spec.Containers), InitContainers: containersOf(pod.Spec.InitContainers),
	}
	for _, label := range labelsOfOne {
		delete(s.Labels, label)
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Projected != nil || volume.ConfigMap != nil || volume.Secret != nil || volume.EmptyDir != nil || volume.DownwardAPI != nil || volume.HostPath != nil {
			continue // No plugin looks at them, and their names may be made up for each pod.
		}
		s.Volumes = append(s.Volumes, *volume)
		if volume.Ephemeral != nil {
			s.Pod = pod.Name
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return string(pod.UID) // Like no other.
	}
	return string(text)
}

func containersOf(containers []v1.Container) (shapes []container) {
	for i := range containers {
		c := &containers[i]
		shapes = append(shapes, container{Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy, Image: c.Image})
	}
	return shapes
}
