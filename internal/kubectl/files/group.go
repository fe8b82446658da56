package files

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// GroupOf returns a pod's PodGroup from the file, nil if there is none.
func (f *File) GroupOf(pod *v1.Pod) *kube.PodGroup {
	if pod.Spec.SchedulingGroup == nil {
		return nil
	}
	for _, group := range f.Groups {
		if group.Namespace == pod.Namespace && group.Name == ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "") {
			return group
		}
	}
	return nil
}

// ShareClaims returns the claims of the file's PodGroups, one for each reference to a template whatever the number of
// pods (KEP-5729), and records them in the status of the pods that refer to them. The template function looks up
// templates.
func (f *File) ShareClaims(pods []*v1.Pod, template func(namespace, name string) *resourceapi.ResourceClaimTemplate) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	made := make(map[string]bool)
	for _, pod := range pods {
		group := f.GroupOf(pod)
		if group == nil {
			continue
		}
		for i := range pod.Spec.ResourceClaims {
			reference := &pod.Spec.ResourceClaims[i]
			if !shares(group, reference) {
				continue
			}
			from := template(pod.Namespace, *reference.ResourceClaimTemplateName)
			if from == nil {
				continue
			}
			claim := groupClaim(group, reference.Name, from)
			if key := claim.Namespace + "/" + claim.Name; !made[key] {
				made[key] = true
				claims = append(claims, claim)
			}
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: reference.Name, ResourceClaimName: &claim.Name})
		}
	}
	return claims
}

// shares reports whether a pod's reference stands for a claim of its group: the group has a reference with the same
// name and template.
func shares(group *kube.PodGroup, reference *v1.PodResourceClaim) bool {
	for i := range group.Spec.ResourceClaims {
		own := &group.Spec.ResourceClaims[i]
		if own.Name == reference.Name && own.ResourceClaimTemplateName != nil && reference.ResourceClaimTemplateName != nil {
			return *own.ResourceClaimTemplateName == *reference.ResourceClaimTemplateName
		}
	}
	return false
}

func groupClaim(group *kube.PodGroup, name string, template *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaim {
	owner := metav1.NewControllerRef(group, kube.PodGroupVersion.WithKind("PodGroup"))
	if owner.UID == "" {
		owner.UID = types.UID("planned/" + group.Namespace + "/" + group.Name)
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: group.Namespace, Name: fmt.Sprintf("%s-%s", group.Name, name),
			Labels: template.Spec.Labels, Annotations: template.Spec.Annotations, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: template.Spec.Spec,
	}
}
