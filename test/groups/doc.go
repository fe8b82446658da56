// Package groups tests pods that are scheduled as a group (PodGroups of scheduling.k8s.io, KEP-4671) against a real API server: the
// claims of groups (KEP-5729), and how plugin QuartermasterGangs places gangs in domains and sorts them in the queue, as
// manifests/gang-scheduling configures it. It has a cluster of its own, because the feature gates GenericWorkload,
// DRAWorkloadResourceClaims and TopologyAwareWorkloadScheduling, off by default, are on in its API server.
//
// It takes a minute: it runs the scenarios about groups, some tests start a scheduler of their own, and gangs wait for domains and for
// pods that come late.
package groups
