package checker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

// checkWaiting: no pod waits that upstream's allocator and the filters of the default scheduler would place now, and no gang waits if
// enough of its pods could be placed together. It does not judge pods that wait for something else than a node: for claims, the end of a
// gate, the volume that a provisioner makes, devices that are not ready, the end of another claim that holds the same device, or the end
// of pods that a nominated pod has evicted. Nor does it judge pods that depend on filters which are not repeated here: host ports,
// affinity between pods, topology spread, limits and zones of volumes, domains of gangs.
func checkWaiting(ctx context.Context, r *report, s *snapshot, client kubernetes.Interface) error {
	var open []*corev1.Pod
	for _, pod := range s.pods {
		if r.options.Served != nil && awaitsNode(pod) && r.options.Served(pod) {
			open = append(open, pod)
		}
	}
	if len(open) == 0 {
		return nil
	}
	for _, pod := range open {
		if what := s.heldForNobody(pod); what != "" {
			r.violation(HeldForNobody, "pod "+pod.Namespace+"/"+pod.Name, "%s is gone, or has a lower priority; it says: %s", what, reasonOf(pod))
		}
	}
	o, err := newOracle(ctx, client, s, open)
	if err != nil {
		return err
	}
	units, err := gather(ctx, client, r.options.PodGroups, s, open)
	if err != nil {
		return err
	}
	for _, u := range units {
		waits := func(pod *corev1.Pod) bool { return o.candidate(pod) == nil }
		if slices.ContainsFunc(u.pods, s.isKeptFrom) || slices.ContainsFunc(u.pods, s.isHeldFrom) || slices.ContainsFunc(u.beside, waits) {
			continue
		}
		if err := checkUnit(ctx, r, o, u); err != nil {
			return err
		}
	}
	return nil
}

// gangNodes is the maximum number of nodes on which places for a gang are sought: the search tries all ways, each with upstream's
// allocator.
const gangNodes = 16

// checkUnit: the pods of a unit do not wait if there are places for the number of pods that it lacks.
func checkUnit(ctx context.Context, r *report, o *oracle, u unit) error {
	if u.isGang && len(o.nodes) > gangNodes {
		r.warning(NotLookedAt, u.object, "there are %d nodes; places for gangs are sought on %d at most", len(o.nodes), gangNodes)
		return nil
	}
	var able []*candidate
	for _, pod := range u.pods {
		if c := o.candidate(pod); c != nil {
			able = append(able, c)
		}
	}
	if len(able) < u.lacks {
		return nil
	}
	found, err := o.place(ctx, able, u.lacks)
	switch {
	case errors.Is(err, errTooMany):
		r.warning(NotLookedAt, u.object, "there are too many ways to place %d of %d pods on %d nodes", u.lacks, len(able), len(o.nodes))
	case err != nil:
		return err
	case found == nil:
	case u.isGang && o.isHeldFromGang(u, found): // The reasons of its pods tell of a hold only if it kept the last node from them.
	case u.isGang:
		r.violation(GroupCouldRun, u.object, "it lacks %d pods, and they wait although they fit together: %s; pod %s says: %s",
			u.lacks, placements(found), found[0].pod.Name, reasonOf(found[0].pod))
	default:
		r.violation(PodCouldRun, u.object, "it waits although it fits: %s; it says: %s", placements(found), reasonOf(u.pods[0]))
	}
	return nil
}

// awaitsNode reports whether the pod waits only for a node, or for nodes together with others of its gang, as far as the checker can
// judge.
func awaitsNode(pod *corev1.Pod) bool {
	spec := &pod.Spec
	if spec.NodeName != "" || pod.DeletionTimestamp != nil || finished(pod) || len(spec.SchedulingGates) > 0 || len(spec.TopologySpreadConstraints) > 0 {
		return false
	}
	if affinity := spec.Affinity; affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) {
		return false
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

// claimsFor returns the claims of the pod, each once. The pod is not ready if a claim is missing, is being deleted, belongs to somebody
// else, has no room for another consumer, has devices that are not ready, or has a device that another claim holds too: no pod joins such
// a claim. A claim that an earlier attempt has made for extended resources is no claim of the pod, see extendedClaim.
func (s *snapshot) claimsFor(pod *corev1.Pod) (claims []*resourceapi.ResourceClaim, ready bool) {
	seen := map[string]bool{}
	for _, ref := range claimRefs(pod) {
		if ref.entry == "" {
			continue
		}
		claim := s.claimNamed[types.NamespacedName{Namespace: pod.Namespace, Name: ref.claimName}]
		if ref.pending || claim == nil || claim.DeletionTimestamp != nil || conversion.AlphaClaimOf(claim).Allocator == conversion.ByController || ref.generated && !belongsTo(claim, pod) ||
			len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize && !reservedFor(claim, pod) {
			return nil, false
		}
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.Resource != "pods" && (consumer.APIGroup != schedulingGroup || consumer.Name != podGroupName(pod)) {
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

// isKeptFrom reports whether another pod of at least the same priority is nominated for a node that suits the pod while pods are ending
// on such nodes: the nominated pod gets the freed devices. Once no pod is ending, it has to run or to lose its nomination.
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

// heldFor finds the holders in the message of a pod. They are named in the pod's own namespace.
var heldFor = regexp.MustCompile(`held for (?:(pod|group) ([^ ;,.]+/[^ ;,]+[^ ;,.])|a (?:pod|group) of another namespace)`)

// isHeldFrom reports whether the pod says that devices are held for others. If each of these has got a node, the message is only older
// than that, and the pod is judged like others.
func (s *snapshot) isHeldFrom(pod *corev1.Pod) bool {
	for _, found := range heldFor.FindAllStringSubmatch(reasonOf(pod), -1) {
		runs := func(other *corev1.Pod) bool {
			return other.Spec.NodeName != "" && mayBeHeldFor(pod, other, found[1], found[2])
		}
		if !slices.ContainsFunc(s.pods, runs) {
			return true
		}
	}
	return false
}

// heldOn finds the nodes in the message of the condition DevicesHeld: some names, and how many more there are.
var heldOn = regexp.MustCompile(`^[0-9]+ devices? on (.+) (?:is|are) held for`)

// isHeldFromGang reports whether devices are held on one of the nodes for a waiting pod that has no lower priority.
func (s *snapshot) isHeldFromGang(u unit, places []placement) bool {
	return slices.ContainsFunc(s.pods, func(other *corev1.Pod) bool {
		if other.Spec.NodeName != "" || slices.Contains(u.pods, other) || corev1helpers.PodPriority(other) < corev1helpers.PodPriority(u.pods[0]) {
			return false
		}
		for _, condition := range other.Status.Conditions {
			if on := heldOn.FindStringSubmatch(condition.Message); on != nil && condition.Status == corev1.ConditionTrue {
				nodes := strings.Split(on[1], " and ")
				return slices.ContainsFunc(places, func(p placement) bool { return len(nodes) > 2 || slices.Contains(nodes, p.node.Name) })
			}
		}
		return false
	})
}

// heldForNobody returns a pod or group for which devices are held according to the pod's message, although it has no pod with at
// least the same priority; "" if there is none. A hold without such a pod must not keep devices from others.
func (s *snapshot) heldForNobody(pod *corev1.Pod) string {
	for _, found := range heldFor.FindAllStringSubmatch(reasonOf(pod), -1) {
		if !slices.ContainsFunc(s.pods, func(other *corev1.Pod) bool { return mayBeHeldFor(pod, other, found[1], found[2]) }) {
			return found[0]
		}
	}
	return ""
}

// mayBeHeldFor reports whether devices may be held for another pod, or for its group, as the message of a pod says: for the pod or group
// of that kind and name, or for one of another namespace.
func mayBeHeldFor(pod, other *corev1.Pod, kind, name string) bool {
	// All pods of a gang say the same, whatever their priorities.
	alone := pod.Spec.SchedulingGroup == nil && pod.Labels[v1alpha1.PodGroupLabel] == ""
	if other.DeletionTimestamp != nil || alone && corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
		return false
	}
	switch kind {
	case "pod":
		return other.Namespace+"/"+other.Name == name
	case "group":
		native := other.Spec.SchedulingGroup
		return other.Namespace+"/"+other.Labels[v1alpha1.PodGroupLabel] == name ||
			native != nil && native.PodGroupName != nil && other.Namespace+"/"+*native.PodGroupName == name
	}
	return other.Namespace != pod.Namespace
}

// suits reports whether the filters of the default scheduler that look at the node alone pass.
func suits(node *corev1.Node, pod *corev1.Pod) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(taints[:len(taints):len(taints)], corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	_, tainted := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}, false)
	return !tainted && node.DeletionTimestamp == nil && wants(pod, node)
}

// wants reports whether the pod's node selector and required node affinity are for the node.
func wants(pod *corev1.Pod, node *corev1.Node) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && matches
}

// usableOn reports whether the allocated devices can be used on the node.
func usableOn(node *corev1.Node, allocation *resourceapi.AllocationResult) bool {
	return allocation == nil || allocation.NodeSelector == nil || selects(allocation.NodeSelector, node)
}

// reasonOf returns the reason and the message of the pod's condition PodScheduled.
func reasonOf(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return "nothing"
}
