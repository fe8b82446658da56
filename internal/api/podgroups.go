package api

import (
	"fmt"

	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
)

// PodGroupVersions lists the versions of scheduling.k8s.io in which PodGroups can be read, the one of client-go's types first. Their
// PodGroups have the same fields, by KEP-4671 also those of v1, which Kubernetes 1.38 is expected to add.
var PodGroupVersions = []string{schedulingapi.SchemeGroupVersion.Version, "v1", "v1alpha3"}

// podGroupResource is the resource of PodGroups, as in the URL.
const podGroupResource = "podgroups"

// PodGroupVersion returns the first of PodGroupVersions that a server has, "" if it has none. The error is one of discovery.
func PodGroupVersion(client discovery.ServerResourcesInterface) (string, error) {
	for _, version := range PodGroupVersions {
		list, err := client.ServerResourcesForGroupVersion(schema.GroupVersion{Group: schedulingapi.GroupName, Version: version}.String())
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("ask the API server in which version it has PodGroups: %w", err)
		}
		if Names(list).Has(podGroupResource) {
			return version, nil
		}
	}
	return "", nil
}

// WithPodGroups returns a client set whose SchedulingV1beta1() reads and writes PodGroups in the version that the server has. It asks
// the server once. The given client set is returned if that version is v1beta1 or not known.
func WithPodGroups(client kubernetes.Interface) (kubernetes.Interface, error) {
	version, err := PodGroupVersion(client.Discovery())
	if err != nil || version == "" || version == PodGroupVersions[0] {
		return client, err
	}
	served := schema.GroupVersion{Group: schedulingapi.GroupName, Version: version}
	types := runtime.NewScheme()
	types.AddKnownTypes(served, &schedulingapi.PodGroup{}, &schedulingapi.PodGroupList{})
	metav1.AddToGroupVersion(types, served)
	connection, err := newOtherClient(client, served, types)
	if err != nil {
		return client, err
	}
	return podGroupClient{client, schedulingclient.New(connection)}, nil
}

// podGroupClient is a client set with PodGroups of another version.
type podGroupClient struct {
	kubernetes.Interface
	other schedulingclient.SchedulingV1beta1Interface
}

// SchedulingV1beta1 implements kubernetes.Interface.
func (c podGroupClient) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return otherPodGroups{c.Interface.SchedulingV1beta1(), c.other}
}

// otherPodGroups takes PodGroups from another version than the rest.
type otherPodGroups struct {
	schedulingclient.SchedulingV1beta1Interface
	other schedulingclient.SchedulingV1beta1Interface
}

// PodGroups implements SchedulingV1beta1Interface.
func (o otherPodGroups) PodGroups(namespace string) schedulingclient.PodGroupInterface {
	return o.other.PodGroups(namespace)
}
