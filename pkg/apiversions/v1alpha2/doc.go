// Package v1alpha2 has resource.k8s.io/v1alpha2 as the API servers of Kubernetes 1.27 to
// 1.30 serve it.
//
// The version is complete: 1.30 was the last release that has it, so no server sends
// fields that these types do not know. Structured parameters (KEP-4381) came with 1.30;
// before, a controller of the driver allocated all claims (classic mode).
package v1alpha2
