// Package v1alpha3 has the types of resource.k8s.io/v1alpha3 in the API server of Kubernetes 1.31: ResourceClaims,
// their templates, DeviceClasses and ResourceSlices. Servers of 1.32 and 1.33 have that version too, with additional
// fields, which are included, and without a few others. If a server has only this version, its counters and taints
// must not be ignored. DeviceTaintRules joined that version later; the type of client-go lacks fields that servers have
// up to 1.34.
//
// Parts with the same JSON in v1 use the types of v1.
package v1alpha3
