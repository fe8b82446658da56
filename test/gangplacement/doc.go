// Package gangplacement tests plugin QuartermasterGangs, as manifests/gang-scheduling configures it, against a real
// API server: in which domain PodGroups are placed, and how gangs are sorted in the queue. It has a cluster of its
// own, because the feature gates GenericWorkload and TopologyAwareWorkloadScheduling, off by default, are on for
// all of it.
//
// It takes half a minute: gangs wait for domains, and for pods that come late.
package gangplacement
