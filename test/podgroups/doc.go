// Package podgroups tests PodGroups of scheduler-plugins (scheduling.x-k8s.io/v1alpha1) on a real API server: that
// manifests/pod-groups installs them and grants what is needed, that internal/gang/crd keeps in step with them,
// and that internal/gang/crd/status writes the phases that scheduler-plugins documents.
//
// It takes half a minute: the phases of PodGroups follow pods that run and end.
package podgroups
