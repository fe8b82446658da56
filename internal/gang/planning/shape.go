package planning

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// shapeOf returns a text that is equal for pods that every plugin judges alike, provided that their claims are alike.
// It leaves out the parts of the spec that no Filter plugin of kube-scheduler 1.37 reads, and all labels that are not
// given.
func shapeOf(pod *v1.Pod, labels sets.Set[string]) string {
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.HostAliases = "", "", nil
	spec.Containers, spec.InitContainers = containersOf(spec.Containers), containersOf(spec.InitContainers)
	spec.Volumes = nil
	shape := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace}}
	for i := range pod.Spec.Volumes {
		volume := pod.Spec.Volumes[i]
		if isOfNoConcern(&volume) {
			continue
		}
		volume.Name = ""
		spec.Volumes = append(spec.Volumes, volume)
		if volume.Ephemeral != nil {
			shape.Name = pod.Name // The volume's claim is named after the pod, and belongs to no other pod.
		}
	}
	spec.ResourceClaims = nil
	for i := range pod.Spec.ResourceClaims { // Claims are compared by ClaimsKey.
		spec.ResourceClaims = append(spec.ResourceClaims, v1.PodResourceClaim{Name: pod.Spec.ResourceClaims[i].Name})
	}
	for key := range labels {
		if value, found := pod.Labels[key]; found {
			metav1.SetMetaDataLabel(&shape.ObjectMeta, key, value)
		}
	}
	shape.Spec = spec
	text, err := shape.Marshal()
	if err != nil {
		return string(pod.UID) // Equal to no other pod's.
	}
	return string(text)
}

// isOfNoConcern reports whether no plugin reads a volume. The names of these may be generated for each pod.
func isOfNoConcern(volume *v1.Volume) bool {
	return volume.Projected != nil || volume.ConfigMap != nil || volume.Secret != nil || volume.EmptyDir != nil ||
		volume.DownwardAPI != nil || volume.HostPath != nil || volume.Image != nil
}

// containersOf returns copies with the fields that plugins read.
func containersOf(containers []v1.Container) []v1.Container {
	shapes := make([]v1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		shapes[i] = v1.Container{Image: c.Image, Resources: c.Resources, Ports: c.Ports, ResizePolicy: c.ResizePolicy,
			RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules, SecurityContext: c.SecurityContext}
		for j := range c.VolumeMounts { // The plugin NodeDeclaredFeatures reads these options.
			if options := c.VolumeMounts[j].BindMountOptions; len(options) > 0 {
				shapes[i].VolumeMounts = append(shapes[i].VolumeMounts, v1.VolumeMount{BindMountOptions: options})
			}
		}
	}
	return shapes
}

func insertKeys(keys sets.Set[string], selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key := range selector.MatchLabels {
		keys.Insert(key)
	}
	for i := range selector.MatchExpressions {
		keys.Insert(selector.MatchExpressions[i].Key)
	}
}

// requiredTerms returns the required terms of pod affinity and pod anti-affinity.
func requiredTerms(affinity *v1.Affinity) (terms []v1.PodAffinityTerm) {
	if affinity == nil {
		return nil
	}
	if affinity.PodAffinity != nil {
		terms = append(terms, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if affinity.PodAntiAffinity != nil {
		terms = append(terms, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}

// ClaimsKey returns a text that is equal for pods with equivalent claims in the same order. Two claims made for one pod
// each are equivalent if their specs are equal and neither has an allocation; other claims only if they are the same
// claim.
func ClaimsKey(pod *v1.Pod, claims []*resourceapi.ResourceClaim) string {
	var b strings.Builder
	for _, claim := range claims {
		b.WriteByte('\n')
		if claim.Status.Allocation == nil && metav1.IsControlledBy(claim, pod) {
			if spec, err := json.Marshal(&claim.Spec); err == nil {
				b.Write(spec)
				continue
			}
		}
		b.WriteString(string(claim.UID))
	}
	return b.String()
}

// DevicesOf returns the number of devices of some device classes that are allocated to claims.
func DevicesOf(claims []*resourceapi.ResourceClaim, classes []string) (devices int) {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			if slices.Contains(classes, dra.ClassOf(claim, claim.Status.Allocation.Devices.Results[i].Request)) {
				devices++
			}
		}
	}
	return devices
}
