// Package schedulerlibrary compares pkg/whatif with kube-scheduler's own plugins, which sigs.k8s.io/scheduler-library runs on the same
// questions. The library is in a program of its own, since it needs older versions of Kubernetes' libraries.
package schedulerlibrary
