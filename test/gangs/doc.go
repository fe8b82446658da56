// Package gangs runs the scheduler on a real API server with gangs: PodGroups of scheduler-plugins
// (scheduling.x-k8s.io/v1alpha1). All pods of a gang get devices, or none does.
//
// Even the part in make test takes a minute: gangs wait for reservations to end, as they are shipped.
package gangs
