package main

import (
	"fmt"
	"strings"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// checkPodGroups fails if a feature gate is on and the server does not serve the API that it needs: the scheduler
// would wait forever for the first list, and schedule nothing. If the server does not answer, the check passes.
func checkPodGroups(client discovery.ServerResourcesInterface, gates featuregate.FeatureGate) error {
	if gates.Enabled(kube.GenericWorkload) {
		if version, err := api.PodGroupVersion(client); err == nil && version == "" {
			return notServed(client, kube.GenericWorkload, "podgroups", kube.PodGroupVersion, api.PodGroupVersions...)
		}
	}
	if gates.Enabled(kube.CompositePodGroup) {
		version, resource := schedulingv1alpha3.SchemeGroupVersion, "compositepodgroups"
		list, err := client.ServerResourcesForGroupVersion(version.String())
		if (err == nil || apierrors.IsNotFound(err)) && !api.Names(list).Has(resource) {
			return notServed(client, kube.CompositePodGroup, resource, version, version.Version)
		}
	}
	return nil
}

// notServed returns the error for a resource that the server has in none of the versions that this scheduler reads.
func notServed(client discovery.ServerResourcesInterface, gate featuregate.Feature, resource string, on schema.GroupVersion, read ...string) error {
	return fmt.Errorf("feature gate %s is on, but the API server does not have %s of %s in %s%s; turn the gate off, "+
		"or the API on (kube-apiserver --runtime-config=%s=true --feature-gates=%s=true)",
		gate, resource, on.Group, strings.Join(read, " or "), otherVersions(client, on.Group, resource), on, gate)
}

// otherVersions says in which versions the server has a resource that was not found in those that are read, "" if it
// has it in none. A server may have PodGroups only in a version that is newer than this scheduler.
func otherVersions(client discovery.ServerResourcesInterface, group, resource string) string {
	_, lists, _ := client.ServerGroupsAndResources() // Groups that do not answer are left out.
	var versions []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err == nil && version.Group == group && api.Names(list).Has(resource) {
			versions = append(versions, version.Version)
		}
	}
	if len(versions) == 0 {
		return ""
	}
	return fmt.Sprintf(", only in %s, which this scheduler does not read", strings.Join(versions, " and "))
}
