// Package v1alpha3 has resource.k8s.io/v1alpha3 as the API server of Kubernetes 1.31
// serves it: ResourceClaims, their templates, DeviceClasses and ResourceSlices. The server
// of 1.32 has that version, too, with a few fields more, which are here, and a few less.
// DeviceTaintRules, which came to that version later, are in client-go.
//
// Parts that have the same JSON in v1 are the types of v1.
package v1alpha3
