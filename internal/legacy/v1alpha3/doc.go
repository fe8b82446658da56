// Package v1alpha3 has resource.k8s.io/v1alpha3 as the API server of Kubernetes 1.31
// serves it: ResourceClaims, their templates, DeviceClasses and ResourceSlices. The servers
// of 1.32 and 1.33 have that version, too, with more fields, which are here, and some less.
// A server that has only this version must not be read as if it had no counters or taints.
// DeviceTaintRules, which came to that version later, are in client-go.
//
// Parts that have the same JSON in v1 are the types of v1.
package v1alpha3
