package scenario

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// AppPods are the pods of one app, ordered by name, for checks.
type AppPods struct {
	App      string
	Members  []Member
	snapshot *Snapshot
}

// Member is a pod with the claims it uses, in the order of its spec.
type Member struct {
	Pod    *corev1.Pod
	Claims []*resourceapi.ResourceClaim
}

// appPods collects the pods of an app. Terminating and failed pods do not count, because others will replace them.
func (s *Snapshot) appPods(app string) *AppPods {
	g := &AppPods{App: app, snapshot: s}
	for _, pod := range s.Pods {
		if pod.Labels[builder.AppLabel] == app && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			g.Members = append(g.Members, Member{Pod: pod, Claims: s.claimsOf(pod)})
		}
	}
	slices.SortFunc(g.Members, func(a, b Member) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return g
}

// claimsOf returns the claims of a pod that exist.
func (s *Snapshot) claimsOf(pod *corev1.Pod) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, reference := range pod.Spec.ResourceClaims {
		if claim := s.claim(claimName(pod, reference)); claim != nil {
			claims = append(claims, claim)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		if claim := s.claim(extended.ResourceClaimName); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// claimCount returns the number of claims that a pod needs.
func claimCount(pod *corev1.Pod) int {
	count := len(pod.Spec.ResourceClaims)
	if pod.Status.ExtendedResourceClaimStatus != nil {
		count++
	}
	return count
}

// claimName returns the name of the ResourceClaim behind a pod's reference; empty if it has not been generated yet.
func claimName(pod *corev1.Pod, reference corev1.PodResourceClaim) string {
	if reference.ResourceClaimName != nil {
		return *reference.ResourceClaimName
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == reference.Name && status.ResourceClaimName != nil {
			return *status.ResourceClaimName
		}
	}
	return ""
}

// Results returns the allocation results of all claims of the pod, in order.
func (m Member) Results() []resourceapi.DeviceRequestAllocationResult {
	var results []resourceapi.DeviceRequestAllocationResult
	for _, claim := range m.Claims {
		results = append(results, resultsOf(claim)...)
	}
	return results
}

// finished reports whether the pod has ended, so that its claims may be gone.
func (m Member) finished() bool { return m.Pod.Status.Phase == corev1.PodSucceeded }

// scheduled returns nil if the pod is bound and, unless it has finished, all
// its claims are allocated and reserved for it, and protected by the finalizer.
func (m Member) scheduled() error {
	if m.Pod.Spec.NodeName == "" {
		return fmt.Errorf("pod %s is not bound; %s", m.Pod.Name, podReason(m.Pod, nil))
	}
	if m.finished() {
		return nil
	}
	if want := claimCount(m.Pod); len(m.Claims) != want {
		return fmt.Errorf("pod %s is bound with %d of its %d claims in existence", m.Pod.Name, len(m.Claims), want)
	}
	for _, claim := range m.Claims {
		if claim.Status.Allocation == nil {
			return fmt.Errorf("pod %s is bound, its claim %s is not allocated", m.Pod.Name, claim.Name)
		}
		if !reservedFor(claim, m.Pod) {
			return fmt.Errorf("pod %s is bound, its claim %s is not reserved for it", m.Pod.Name, claim.Name)
		}
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			return fmt.Errorf("claim %s is allocated without the finalizer %s", claim.Name, resourceapi.Finalizer)
		}
	}
	return nil
}

func reservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == pod.UID || podGroupOf(pod) != "" && groupConsumer(claim.Namespace, consumer) == podGroupOf(pod)
	})
}

// groupConsumer returns the UID that stands for a PodGroup among consumers, "" for other consumers: pods refer to
// their group by name only.
func groupConsumer(namespace string, consumer resourceapi.ResourceClaimConsumerReference) types.UID {
	if consumer.Resource != "podgroups" {
		return ""
	}
	return types.UID("podgroups/" + namespace + "/" + consumer.Name)
}

// podGroupOf returns the groupConsumer of a pod's group, "" if it has none.
func podGroupOf(pod *corev1.Pod) types.UID {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return types.UID("podgroups/" + pod.Namespace + "/" + *group.PodGroupName)
	}
	return ""
}

// podReason returns the reason why a pod is not scheduled: the PodScheduled condition or, until the scheduler has set
// it, the given texts of events about the pod.
func podReason(pod *corev1.Pod, eventTexts []string) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Reason + ": " + condition.Message
		}
	}
	return strings.Join(eventTexts, "; ")
}
