package main

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// podGroupResources lists the resources that kube-scheduler watches if a feature gate is on.
var podGroupResources = []struct {
	gate     featuregate.Feature
	version  schema.GroupVersion
	resource string
}{
	{kube.GenericWorkload, kube.PodGroupVersion, "podgroups"},
	{kube.CompositePodGroup, schedulingv1alpha3.SchemeGroupVersion, "compositepodgroups"},
}

// checkPodGroups fails if a feature gate is on and the server does not serve the API that it needs: the scheduler
// would wait forever for the first list, and schedule nothing. If the server does not answer, the check passes.
func checkPodGroups(client discovery.ServerResourcesInterface, gates featuregate.FeatureGate) error {
	for _, r := range podGroupResources {
		if !gates.Enabled(r.gate) {
			continue
		}
		list, err := client.ServerResourcesForGroupVersion(r.version.String())
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		if list == nil || !slices.ContainsFunc(list.APIResources, func(have metav1.APIResource) bool { return have.Name == r.resource }) {
			return fmt.Errorf("feature gate %s is on, but the API server does not have %s in %s%s; turn the gate off, "+
				"or the API on (kube-apiserver --runtime-config=%s=true --feature-gates=%s=true)", r.gate, r.resource, r.version, otherVersions(client, r.version.Group, r.resource), r.version, r.gate)
		}
	}
	return nil
}

// otherVersions says in which versions the server has a resource that was not found in the one that is read, "" if it
// has it in none. A server may have PodGroups only in a version that is newer than this scheduler.
func otherVersions(client discovery.ServerResourcesInterface, group, resource string) string {
	_, lists, _ := client.ServerGroupsAndResources() // Groups that do not answer are left out.
	var versions []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err == nil && version.Group == group && slices.ContainsFunc(list.APIResources, func(have metav1.APIResource) bool { return have.Name == resource }) {
			versions = append(versions, version.Version)
		}
	}
	if len(versions) == 0 {
		return ""
	}
	return fmt.Sprintf(", only in %s, which this scheduler does not read", strings.Join(versions, " and "))
}
