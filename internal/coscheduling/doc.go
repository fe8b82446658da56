// Package coscheduling knows the PodGroups of scheduler-plugins (scheduling.x-k8s.io/v1alpha1), which pods name by
// a label, and keeps in step with them. They are a custom resource: they may not be installed, come while the
// scheduler runs, and go again, and their definition may be somebody else's, so that any field may have
// something in it that the Go type cannot hold. None of that keeps other pods from being scheduled.
//
// The PodGroups of Kubernetes itself (scheduling.k8s.io, KEP-4671) are not meant here.
package coscheduling
