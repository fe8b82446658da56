// Package crd follows the PodGroups of scheduler-plugins (scheduling.x-k8s.io/v1alpha1), which pods name by a
// label. PodGroups are a custom resource: they may not be installed, or may appear and disappear while the scheduler
// runs. Their definition may come from another project, so that any field may hold a value that the Go type cannot.
// None of that prevents other pods from being scheduled.
//
// The PodGroups of Kubernetes itself (scheduling.k8s.io, KEP-4671) are not handled here.
package crd
