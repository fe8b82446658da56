// Package gangs runs the scheduler on a real API server with gangs: PodGroups of scheduler-plugins
// (scheduling.x-k8s.io/v1alpha1), of which all pods get devices, or none.
package gangs
