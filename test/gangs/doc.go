// Package gangs runs the scheduler on a real API server with gangs: PodGroups of scheduler-plugins
// (scheduling.x-k8s.io/v1alpha1). All pods of a gang get devices, or none does. The files crd_* test the resource itself:
// manifests/pod-groups installs it and grants what is needed, internal/gang/crd keeps in step with it, and
// internal/gang/crd/status writes the phases that scheduler-plugins documents.
//
// Even the part in make test takes a minute: gangs wait for reservations to end, as they are shipped.
package gangs
