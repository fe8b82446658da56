// Package workload handles pods that are scheduled together (KEP-4671) and claims that are reserved for their PodGroup
// (KEP-5729): what an attempt to schedule a group has planned so far, and which attempts of this process use a claim of
// the group.
//
// The package does not depend on the scheduler's extension points or on a pod's other needs, and writes nothing.
//
// # Placements
//
// Place tells a plugin in which domain kube-scheduler tries whether a PodGroup fits. kube-scheduler only limits the nodes: where
// nodes are in several domains, because their devices are, the plugin that allocates devices must leave out those of the other
// domains. PreFilter, for which kube-scheduler lists all nodes, does not learn which of them a placement is limited to.
package workload
