// Package gangs runs the scheduler on a real API server with gangs: PodGroups of scheduler-plugins
// (scheduling.x-k8s.io/v1alpha1). All pods of a gang get devices, or none does.
package gangs
