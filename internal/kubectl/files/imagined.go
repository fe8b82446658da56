package files

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Add appends the contents of another file.
func (f *File) Add(other *File) {
	o, more := &f.Objects, &other.Objects
	o.Nodes, o.Slices, o.Claims = append(o.Nodes, more.Nodes...), append(o.Slices, more.Slices...), append(o.Claims, more.Claims...)
	o.Templates, o.Classes = append(o.Templates, more.Templates...), append(o.Classes, more.Classes...)
	o.TaintRules, o.Pods = append(o.TaintRules, more.TaintRules...), append(o.Pods, more.Pods...)
	f.Workloads = append(f.Workloads, other.Workloads...)
	f.Groups, f.Namespaces, f.Others = append(f.Groups, other.Groups...), append(f.Namespaces, other.Namespaces...), append(f.Others, other.Others...)
	f.Warnings = append(f.Warnings, other.Warnings...)
}

// Imagined returns, for a file without pods, a workload for each claim and each template: a pod that asks for nothing
// else. If several is set, each pod gets its own copy of the claim, through an additional template.
func (f *File) Imagined(several bool) []Workload {
	var all []Workload
	for _, template := range f.Objects.Templates {
		all = append(all, imagined("ResourceClaimTemplate", template, v1.PodResourceClaim{Name: "claim", ResourceClaimTemplateName: &template.Name}))
	}
	for _, claim := range f.Objects.Claims {
		reference := v1.PodResourceClaim{Name: "claim", ResourceClaimName: &claim.Name}
		if several {
			template := templateOf(claim)
			f.Objects.Templates = append(f.Objects.Templates, template)
			reference.ResourceClaimName, reference.ResourceClaimTemplateName = nil, &template.Name
		}
		all = append(all, imagined("ResourceClaim", claim, reference))
	}
	return all
}

func templateOf(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: fmt.Sprintf("like-%s", claim.Name)},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec},
	}
}

func imagined(kind string, object metav1.Object, reference v1.PodResourceClaim) Workload {
	name := "user-of-" + object.GetName()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: name}}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{reference}
	return Workload{Kind: kind, Namespace: object.GetNamespace(), Name: name, Replicas: 1, pod: pod}
}

// tolerateAll lets a pod run on nodes with any taint except that of cordoned nodes, because nodes with devices are
// often tainted.
func tolerateAll(pod *v1.Pod, nodes []*v1.Node) {
	known := map[string]bool{v1.TaintNodeUnschedulable: true}
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			if !known[taint.Key] {
				known[taint.Key] = true
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpExists})
			}
		}
	}
}
