package checker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// oldGroupLabel is the label with the gang of a pod in early versions of scheduler-plugins.
const oldGroupLabel = "pod-group.scheduling.sigs.k8s.io"

// unit is a set of pods that are placed together: one pod, or as many pods of a gang as it lacks.
type unit struct {
	// object is the subject of a violation.
	object string
	isGang bool
	// lacks is the number of pods that have to be placed before any of them can run.
	lacks int
	pods  []*corev1.Pod
	// beside are the pods that kube-scheduler must all be able to try before it tries any of them.
	beside []*corev1.Pod
}

// gang is a PodGroup of either kind, with the fields that matter here.
type gang struct {
	object string
	// least is the number of pods that have to run or to have succeeded, succeeded the number of pods that have succeeded.
	least, succeeded int
	// native is set for a PodGroup of Kubernetes. kube-scheduler tries it only if it can try all of its pods, and if these are
	// alike.
	native *schedulingapi.PodGroup
	// judged is false for a gang that needs more than nodes and devices for its pods.
	judged bool
}

// gather makes units of the waiting pods: one for each gang that lacks pods, and else one for each pod. Pods of a PodGroup that
// does not exist wait rightly.
func gather(ctx context.Context, client kubernetes.Interface, labeled func(context.Context) ([]v1alpha1.PodGroup, error), s *snapshot, open []*corev1.Pod) ([]unit, error) {
	gangs, err := listGangs(ctx, client, labeled, open)
	if err != nil {
		return nil, err
	}
	members, waiting, order := map[string][]*corev1.Pod{}, map[string][]*corev1.Pod{}, []string(nil)
	for _, pod := range s.pods {
		if object := gangOf(pod); object != "" {
			members[object] = append(members[object], pod)
		}
	}
	var units []unit
	for _, pod := range open {
		object := gangOf(pod)
		if object == "" {
			units = append(units, unit{object: podObject(pod), lacks: 1, pods: []*corev1.Pod{pod}})
			continue
		}
		if waiting[object] == nil {
			order = append(order, object)
		}
		waiting[object] = append(waiting[object], pod)
	}
	for _, object := range order {
		if g, exists := gangs[object]; exists && g.judged {
			units = append(units, g.units(members[object], waiting[object])...)
		}
	}
	return units, nil
}

// units returns the units of a gang: one for all pods that it lacks, or one for each pod if it lacks none.
func (g gang) units(members, waiting []*corev1.Pod) (units []unit) {
	lacks := g.least - g.succeeded
	for _, pod := range members {
		switch {
		case pod.Spec.SchedulerName != waiting[0].Spec.SchedulerName, g.native != nil && !isTried(g.native, pod, waiting):
			return nil
		case !finished(pod) && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil:
			lacks--
		}
	}
	var beside []*corev1.Pod
	if g.native != nil {
		beside = waiting
	}
	if lacks > 0 {
		return []unit{{object: g.object, isGang: true, lacks: lacks, pods: waiting, beside: beside}}
	}
	for _, pod := range waiting {
		units = append(units, unit{object: podObject(pod), lacks: 1, pods: []*corev1.Pod{pod}, beside: beside})
	}
	return units
}

// isTried reports whether a pod does not keep others of its PodGroup from being tried. A pod that is being deleted keeps them
// from it, but not for long.
func isTried(group *schedulingapi.PodGroup, pod *corev1.Pod, waiting []*corev1.Pod) bool {
	return finished(pod) || pod.DeletionTimestamp == nil && (pod.Spec.NodeName != "" || slices.Contains(waiting, pod)) &&
		corev1helpers.PodPriority(pod) == ptr.Deref(group.Spec.Priority, 0) && ptr.Deref(pod.Spec.PreemptionPolicy, "") == ptr.Deref(waiting[0].Spec.PreemptionPolicy, "")
}

// gangOf returns the gang of the pod as gang.object has it, "" if the pod is in none.
func gangOf(pod *corev1.Pod) string {
	switch {
	case pod.Labels[oldGroupLabel] != "":
		return "group " + pod.Namespace + "/" + pod.Labels[oldGroupLabel] + " of an early version of scheduler-plugins"
	case podGroupName(pod) != "":
		return objectOf("PodGroup", pod.Namespace, podGroupName(pod))
	case pod.Labels[v1alpha1.PodGroupLabel] != "":
		return objectOf("group", pod.Namespace, pod.Labels[v1alpha1.PodGroupLabel])
	default:
		return ""
	}
}

func objectOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// listGangs lists the PodGroups of the kinds that the pods name.
func listGangs(ctx context.Context, client kubernetes.Interface, labeled func(context.Context) ([]v1alpha1.PodGroup, error), open []*corev1.Pod) (map[string]gang, error) {
	gangs := map[string]gang{}
	if labeled != nil && slices.ContainsFunc(open, func(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.PodGroupLabel] != "" }) {
		groups, err := labeled(ctx)
		if err != nil {
			return nil, fmt.Errorf("check the cluster: %w", err)
		}
		for i := range groups {
			g := ofLabeled(&groups[i])
			gangs[g.object] = g
		}
	}
	if slices.ContainsFunc(open, func(pod *corev1.Pod) bool { return podGroupName(pod) != "" }) {
		groups, err := client.SchedulingV1beta1().PodGroups("").List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return gangs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("check the cluster: list PodGroups: %w", err)
		}
		for i := range groups.Items {
			g := ofNative(&groups.Items[i])
			gangs[g.object] = g
		}
	}
	return gangs, nil
}

func ofLabeled(group *v1alpha1.PodGroup) gang {
	g := gang{object: objectOf("group", group.Namespace, group.Name), least: int(group.Spec.MinMember), judged: isPlain(group) && len(group.Spec.MinResources) == 0}
	if phase := group.Status.Phase; phase != v1alpha1.PodGroupFinished && phase != v1alpha1.PodGroupFailed {
		g.succeeded = int(group.Status.Succeeded)
	}
	return g
}

func ofNative(group *schedulingapi.PodGroup) gang {
	spec := &group.Spec
	g := gang{object: objectOf("PodGroup", group.Namespace, group.Name), native: group,
		judged: isPlain(group) && group.DeletionTimestamp == nil && spec.SchedulingConstraints == nil && spec.ParentCompositePodGroupName == nil}
	if spec.SchedulingPolicy.Gang != nil {
		g.least = int(spec.SchedulingPolicy.Gang.MinCount)
	}
	return g
}

// isPlain reports whether the pods of a group may be on any nodes. Annotations may require one domain for them.
func isPlain(group metav1.Object) bool {
	for name := range group.GetAnnotations() {
		if strings.HasSuffix(name, "-domain") {
			return false
		}
	}
	return true
}

// podGroupsPath is the path of all PodGroups of scheduler-plugins.
const podGroupsPath = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

// PodGroupsFrom returns a function for Options.PodGroups. It returns no groups if the resource is not installed.
func PodGroupsFrom(client rest.Interface) func(context.Context) ([]v1alpha1.PodGroup, error) {
	return func(ctx context.Context) ([]v1alpha1.PodGroup, error) {
		raw, err := client.Get().AbsPath(podGroupsPath).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list PodGroups of scheduler-plugins: %w", err)
		}
		var groups v1alpha1.PodGroupList
		if err := json.Unmarshal(raw, &groups); err != nil {
			return nil, fmt.Errorf("list PodGroups of scheduler-plugins: %w", err)
		}
		return groups.Items, nil
	}
}
