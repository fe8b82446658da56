package kubectl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// checkReferences fails for pods whose claims cannot be known, and for containers that name a request that the claim
// lacks.
func checkReferences(m *files.File, pods []*v1.Pod, world *whatif.Snapshot) error {
	for _, pod := range pods {
		for i := range pod.Spec.ResourceClaims {
			reference := &pod.Spec.ResourceClaims[i]
			if err := checkSource(m, pod, reference, world); err != nil {
				return err
			}
			if spec := specOf(pod, reference, world); spec != nil {
				if err := checkRequests(pod, reference.Name, spec); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// specOf returns the claim spec behind a pod's reference, nil if neither the claim nor the template exists.
func specOf(pod *v1.Pod, reference *v1.PodResourceClaim, world *whatif.Snapshot) *resourceapi.ResourceClaimSpec {
	if name := reference.ResourceClaimName; name != nil {
		if claim := world.Claim(pod.Namespace, *name); claim != nil {
			return &claim.Spec
		}
		return nil
	}
	if template := world.Template(pod.Namespace, ptr.Deref(reference.ResourceClaimTemplateName, "")); template != nil {
		return &template.Spec.Spec
	}
	return nil
}

// checkSource fails for a missing claim or template if the file shows the reason: the object is in another namespace,
// or a controller makes it for another object.
func checkSource(m *files.File, pod *v1.Pod, reference *v1.PodResourceClaim, world *whatif.Snapshot) error {
	if specOf(pod, reference, world) != nil {
		return nil
	}
	kind, name := "ResourceClaimTemplate", ptr.Deref(reference.ResourceClaimTemplateName, "")
	if reference.ResourceClaimName != nil {
		kind, name = "ResourceClaim", *reference.ResourceClaimName
	}
	for i := range m.Others {
		if other := &m.Others[i]; other.Mentions(name) {
			return fmt.Errorf("pod %s uses %s %s, which is neither in the file nor in the cluster; %s %s names it, and what its controller makes is not known here. "+
				"Create the %s first, or add the %s to the file", whatif.Key(pod), kind, name, other.Kind, other.Name, other.Kind, kind)
		}
	}
	var elsewhere []string
	for _, template := range m.Objects.Templates {
		if kind == "ResourceClaimTemplate" && template.Name == name {
			elsewhere = append(elsewhere, template.Namespace)
		}
	}
	for _, claim := range m.Objects.Claims {
		if kind == "ResourceClaim" && claim.Name == name {
			elsewhere = append(elsewhere, claim.Namespace)
		}
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("pod %s uses %s %s of its own namespace, and the file has that in namespace %s; put both into one namespace",
			whatif.Key(pod), kind, name, strings.Join(elsewhere, " and "))
	}
	return nil
}

// checkRequests fails for a container that names a request that the claim lacks: API servers accept such a pod, and
// the kubelet fails to start it.
func checkRequests(pod *v1.Pod, claim string, spec *resourceapi.ResourceClaimSpec) error {
	var known []string
	for i := range spec.Devices.Requests {
		known = append(known, spec.Devices.Requests[i].Name)
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for j, used := range containers[i].Resources.Claims {
				if used.Name == claim && used.Request != "" && !slices.Contains(known, used.Request) {
					return fmt.Errorf("pod %s: container %s has resources.claims[%d].request %q, and claim %s has the requests %s; the kubelet would not start it. Use one of these",
						whatif.Key(pod), containers[i].Name, j, used.Request, claim, strings.Join(known, ", "))
				}
			}
		}
	}
	return nil
}

// checkAdmin fails for claims and templates with admin access in a namespace without the label that allows it
// (KEP-5018), and returns doubts about namespaces whose labels are unknown.
func (o *options) checkAdmin(ctx context.Context, m *files.File) (doubts []string, err error) {
	specs := make(map[string]*resourceapi.ResourceClaimSpec)
	namespaces := make(map[string]string)
	for _, claim := range m.Objects.Claims {
		name := "ResourceClaim " + whatif.Key(claim)
		specs[name], namespaces[name] = &claim.Spec, claim.Namespace
	}
	for _, template := range m.Objects.Templates {
		name := "ResourceClaimTemplate " + whatif.Key(template)
		specs[name], namespaces[name] = &template.Spec.Spec, template.Namespace
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if !wantsAdmin(specs[name]) {
			continue
		}
		labels, known := o.labelsOf(ctx, m, namespaces[name])
		switch {
		case !known:
			doubts = append(doubts, fmt.Sprintf("%s asks for admin access, and it is not known here whether namespace %s has the label %s=true", name, namespaces[name], resourceapi.DRAAdminNamespaceLabelKey))
		case labels[resourceapi.DRAAdminNamespaceLabelKey] != "true":
			return nil, fmt.Errorf("%s asks for admin access, and namespace %s does not have the label %s=true, so that an API server would refuse it; "+
				"label the namespace, or leave adminAccess out", name, namespaces[name], resourceapi.DRAAdminNamespaceLabelKey)
		}
	}
	return doubts, nil
}

func wantsAdmin(spec *resourceapi.ResourceClaimSpec) bool {
	for request := range dra.RequestsIn(spec.Devices.Requests) {
		if request.AdminAccess {
			return true
		}
	}
	return false
}

// labelsOf returns the labels of a namespace from the file, or else from the cluster. A dump has no namespaces.
func (o *options) labelsOf(ctx context.Context, m *files.File, name string) (labels map[string]string, known bool) {
	for _, namespace := range m.Namespaces {
		if namespace.Name == name {
			return namespace.Labels, true
		}
	}
	if o.from != "" {
		return nil, false
	}
	source, err := o.source(ctx)
	if err != nil {
		return nil, false
	}
	namespace, err := source.Client().CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	return namespace.Labels, true
}
