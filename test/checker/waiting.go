package checker

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	podresource "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

// groupLabels name the gang of a pod.
var groupLabels = []string{"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"}

// checkWaiting: no pod waits that upstream's allocator and the filters of the default scheduler would place now. Not judged
// are pods that wait for something else than a node: for claims, the end of a gate, the other pods of their gang, devices
// that are not ready, the end of another claim that holds the same device, pods that are ending for somebody who was
// nominated. Nor are those for which filters decide that are not repeated here: volumes, host ports, affinity between pods,
// topology spread.
func checkWaiting(ctx context.Context, r *report, s *snapshot, client kubernetes.Interface) error {
	var o *oracle
	for _, pod := range s.pods {
		if !awaitsNode(pod) || r.options.Served == nil || !r.options.Served(pod) || s.isKeptFrom(pod) {
			continue
		}
		claims, ready := s.claimsFor(pod)
		if !ready {
			continue
		}
		if o == nil {
			var err error
			if o, err = newOracle(ctx, client, s); err != nil {
				return err
			}
		}
		for _, node := range sortedKeys(s.nodeNamed) {
			if s.suits(s.nodeNamed[node], pod) && s.usableOn(s.nodeNamed[node], claims) && o.allocates(ctx, s.nodeNamed[node], claims) {
				r.violation(PodCouldRun, podObject(pod), "it waits although node %s suits it and has devices for its %d claims; it says: %s", node, len(claims), reasonOf(pod))
				break
			}
		}
	}
	return nil
}

// awaitsNode reports whether the pod waits for a node alone, as far as it can be judged here.
func awaitsNode(pod *corev1.Pod) bool {
	spec := &pod.Spec
	if spec.NodeName != "" || pod.DeletionTimestamp != nil || finished(pod) || len(spec.SchedulingGates) > 0 || spec.SchedulingGroup != nil ||
		len(spec.TopologySpreadConstraints) > 0 {
		return false
	}
	for _, label := range groupLabels {
		if pod.Labels[label] != "" {
			return false
		}
	}
	if affinity := spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) {
		return false
	}
	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return false
		}
	}
	for _, container := range spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort != 0 {
				return false
			}
		}
	}
	return true
}

// claimsFor returns the claims of the pod, each once. It is not ready if one is missing, is going, belongs to somebody else,
// has no room for another consumer, has to wait for its devices, or has one that another claim holds: nobody joins that.
func (s *snapshot) claimsFor(pod *corev1.Pod) (claims []*resourceapi.ResourceClaim, ready bool) {
	seen := map[string]bool{}
	for _, ref := range claimRefs(pod) {
		claim := s.claimNamed[types.NamespacedName{Namespace: pod.Namespace, Name: ref.claimName}]
		if ref.pending || claim == nil || claim.DeletionTimestamp != nil || conversion.AlphaClaimOf(claim).Allocator == conversion.ByController || ref.generated && !belongsTo(claim, pod) ||
			len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize && !reservedFor(claim, pod) {
			return nil, false
		}
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.Resource != "pods" {
				return nil, false
			}
		}
		for i := range Results(claim) {
			if result := &Results(claim)[i]; !isReady(claim, result) || isHeldTwice(s.heldBy[deviceOf(result)]) {
				return nil, false
			}
		}
		if !seen[claim.Name] {
			seen[claim.Name] = true
			claims = append(claims, claim)
		}
	}
	return claims, true
}

// isReady reports whether the device has all of its binding conditions, and has not failed.
func isReady(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) bool {
	var reported []metav1.Condition
	for i := range claim.Status.Devices {
		status := &claim.Status.Devices[i]
		if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device && ptr.Deref(status.ShareID, "") == string(ptr.Deref(result.ShareID, "")) {
			reported = status.Conditions
		}
	}
	isTrue := func(condition string) bool { return meta.IsStatusConditionTrue(reported, condition) }
	isFalse := func(condition string) bool { return !isTrue(condition) }
	return !slices.ContainsFunc(result.BindingConditions, isFalse) && (len(result.BindingConditions) == 0 || !slices.ContainsFunc(result.BindingFailureConditions, isTrue))
}

// isKeptFrom reports whether another pod of at least the same priority is nominated for a node that suits the pod while pods are
// ending on such nodes: what becomes free is for that one. As soon as nobody is ending, it has to run or to give that up.
func (s *snapshot) isKeptFrom(pod *corev1.Pod) bool {
	suits := func(name string) bool { return s.nodeNamed[name] != nil && wants(pod, s.nodeNamed[name]) }
	nominated, ending := false, false
	for _, other := range s.pods {
		ending = ending || other.DeletionTimestamp != nil && other.Spec.NodeName != "" && !finished(other) && suits(other.Spec.NodeName)
		nominated = nominated || other.UID != pod.UID && other.Spec.NodeName == "" && other.Status.NominatedNodeName != "" &&
			corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod) && suits(other.Status.NominatedNodeName)
	}
	return nominated && ending
}

// suits reports whether the filters of the default scheduler that look at the node alone and at its room pass.
func (s *snapshot) suits(node *corev1.Node, pod *corev1.Pod) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(taints[:len(taints):len(taints)], corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	_, tainted := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}, false)
	return !tainted && node.DeletionTimestamp == nil && wants(pod, node) && s.hasRoom(node, pod)
}

// wants reports whether the pod's node selector and required node affinity are for the node.
func wants(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && matches
}

// hasRoom reports whether the node has what the pod requests besides devices.
func (s *snapshot) hasRoom(node *corev1.Node, pod *corev1.Pod) bool {
	needed, pods := podresource.PodRequests(pod, podresource.PodResourcesOptions{}), int64(1)
	free := node.Status.Allocatable.DeepCopy()
	for _, other := range s.pods {
		if other.Spec.NodeName != node.Name || finished(other) {
			continue
		}
		pods++
		for name, amount := range podresource.PodRequests(other, podresource.PodResourcesOptions{}) {
			left := free[name]
			left.Sub(amount)
			free[name] = left
		}
	}
	for name, amount := range needed {
		if left := free[name]; !amount.IsZero() && left.Cmp(amount) < 0 {
			return false
		}
	}
	return pods <= free.Pods().Value()
}

// usableOn reports whether what is allocated can be used on the node.
func (s *snapshot) usableOn(node *corev1.Node, claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		if allocation := claim.Status.Allocation; allocation != nil && allocation.NodeSelector != nil && !selects(allocation.NodeSelector, node) {
			return false
		}
	}
	return true
}

// reasonOf returns what the pod's condition says.
func reasonOf(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return "nothing"
}
