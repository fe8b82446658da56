package harness

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

// groupConsumer stands for a PodGroup among the UIDs of consumers: pods know their group
// by name only.
func groupConsumer(name string) types.UID { return types.UID("podgroups/" + name) }

func isGroup(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return consumer.Resource == "podgroups" && consumer.APIGroup == schedulingapi.GroupName
}

// consumerID returns the key of a consumer in the history.
func consumerID(consumer resourceapi.ResourceClaimConsumerReference) types.UID {
	if isGroup(consumer) {
		return groupConsumer(consumer.Name)
	}
	return consumer.UID
}

// groupOf returns the key of the reservations of the pod's group in the history, "" without a group.
func groupOf(pod *corev1.Pod) types.UID {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return groupConsumer(*group.PodGroupName)
	}
	return ""
}

// reservedAt returns the revision at which a claim was first reserved for a pod or its group, 0 if never.
func (h *history) reservedAt(claim string, uid types.UID, pod *podHistory) revision {
	at := h.reserved[claim][uid]
	if ofGroup := h.reserved[claim][pod.group]; pod.group != "" && ofGroup > 0 && (at == 0 || ofGroup < at) {
		return ofGroup
	}
	return at
}

// members returns the pods of a group that were bound with a claim.
func (h *history) members(f freed, group resourceapi.ResourceClaimConsumerReference) []*podHistory {
	var members []*podHistory
	for _, pod := range h.pods {
		if pod.namespace == f.namespace && pod.group == groupConsumer(group.Name) && slices.Contains(pod.claims, f.claim) {
			members = append(members, pod)
		}
	}
	return members
}
