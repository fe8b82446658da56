package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource of the simulated API server.
type Resource struct {
	Group, Version, Name, Kind string
	Namespaced                 bool
	// Status says that status is a subresource of its own.
	Status bool
}

// resources lists everything that a scheduler with our plugins reads or writes.
var resources = []Resource{
	{"", "v1", "namespaces", "Namespace", false, false},
	{"", "v1", "nodes", "Node", false, true},
	{"", "v1", "pods", "Pod", true, true},
	{"", "v1", "services", "Service", true, false},
	{"", "v1", "replicationcontrollers", "ReplicationController", true, true},
	{"", "v1", "persistentvolumes", "PersistentVolume", false, true},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, true},
	{"", "v1", "configmaps", "ConfigMap", true, false},
	{"", "v1", "events", "Event", true, false},
	{"events.k8s.io", "v1", "events", "Event", true, false},
	{"apps", "v1", "replicasets", "ReplicaSet", true, true},
	{"apps", "v1", "statefulsets", "StatefulSet", true, true},
	{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true, true},
	{"coordination.k8s.io", "v1", "leases", "Lease", true, false},
	{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false, false},
	{"storage.k8s.io", "v1", "csinodes", "CSINode", false, false},
	{"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false, false},
	{"storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true, false},
	{"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false, true},
	{"resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false, false},
	{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true, true},
	{"resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true, false},
	{"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false, false},
	{"resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", false, true},
	{"scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", true, true},
	{"scheduling.k8s.io", "v1beta1", "workloads", "Workload", true, false},
	{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true, true},
}

// apiResourceList returns the discovery document of a group and version.
func apiResourceList(group, version string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: groupVersion(group, version),
	}
	for _, r := range resources {
		if r.Group == group && r.Version == version {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}

func groupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

func (r Resource) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
