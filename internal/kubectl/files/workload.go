package files

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// Workload is a pod, or an object that makes pods.
type Workload struct {
	// Kind is the kind in the API, for example "Deployment".
	Kind            string
	Namespace, Name string
	// Replicas is the number of pods at the same time. It is 0 for a DaemonSet, which has one pod for each node.
	Replicas int

	pod *v1.Pod
}

// String returns the workload's name in kubectl's form.
func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// addWorkload adds a workload with replicas pods at the same time, from the template at a path.
func (f *File) addWorkload(kind string, meta *metav1.ObjectMeta, template *v1.PodTemplateSpec, replicas int, path string) error {
	if replicas < 0 {
		return fmt.Errorf("an API server would refuse it: it asks for %d pods", replicas)
	}
	f.inNamespace(meta)
	pod := &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = meta.Namespace, meta.Name
	f.Workloads = append(f.Workloads, Workload{Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Replicas: replicas, pod: pod})
	return validatePodTemplate(template, path)
}

// Pods returns the pods of a workload: its own number, or replicas if that is not 0. nodes are the cluster's nodes: a
// DaemonSet has a pod on each node that its pods may run on, and ignores replicas.
func (w *Workload) Pods(replicas int, nodes []*v1.Node) []*v1.Pod {
	if w.Kind == daemonSet {
		return w.onEach(nodes)
	}
	if w.isPod() && replicas <= 1 {
		pods := []*v1.Pod{w.unbound()}
		w.tolerate(pods, nodes)
		return pods
	}
	if replicas == 0 {
		replicas = w.Replicas
	}
	pods := make([]*v1.Pod, replicas)
	for i := range pods {
		pods[i] = w.unbound()
		if pods[i].UID = ""; replicas > 1 {
			pods[i].Name = fmt.Sprintf("%s-%d", w.Name, i)
		}
	}
	w.tolerate(pods, nodes)
	return pods
}

// tolerate lets imagined pods of claims and templates run on nodes with taints.
func (w *Workload) tolerate(pods []*v1.Pod, nodes []*v1.Node) {
	if w.Kind == "Pod" || !w.isPod() {
		return
	}
	for _, pod := range pods {
		tolerateAll(pod, nodes)
	}
}

// unbound returns a pod of the workload without a node and without a status.
func (w *Workload) unbound() *v1.Pod {
	pod := w.pod.DeepCopy()
	pod.Spec.NodeName, pod.Status = "", v1.PodStatus{}
	return pod
}

// isPod reports whether the workload is a pod with its own name.
func (w *Workload) isPod() bool {
	return w.Kind == "Pod" || w.Kind == "ResourceClaim" || w.Kind == "ResourceClaimTemplate"
}

const daemonSet = "DaemonSet"

// onEach returns a pod for each eligible node, pinned to it like the pods of the DaemonSet controller.
func (w *Workload) onEach(nodes []*v1.Node) []*v1.Pod {
	var pods []*v1.Pod
	for _, node := range nodes {
		pod := w.unbound()
		pod.Name, pod.UID = w.Name+"-"+node.Name, ""
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerations()...)
		if !wants(pod, node) {
			continue
		}
		pin(pod, node.Name)
		pods = append(pods, pod)
	}
	return pods
}

// tolerations returns the tolerations that the DaemonSet controller adds to pods.
func tolerations() []v1.Toleration {
	var all []v1.Toleration
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	}
	for _, key := range []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure, v1.TaintNodeUnschedulable} {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	}
	return all
}

func wants(pod *v1.Pod, node *v1.Node) bool {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !matches {
		return false
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// pin restricts a pod to one node, in each term of its node affinity.
func pin(pod *v1.Pod, node string) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
}

// atOnce returns the number of pods of a Job that run at the same time.
func atOnce(job *batchv1.JobSpec) int {
	parallel := number(job.Parallelism, 1)
	if job.Completions != nil {
		return min(parallel, int(*job.Completions))
	}
	return parallel
}

func number(given *int32, otherwise int32) int { return int(ptr.Deref(given, otherwise)) }
