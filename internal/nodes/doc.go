// Package nodes picks and compares nodes: which ones PreFilter names, their scores by the cost of devices, and the reasons for a pod's
// status.
//
// # Nodes that PreFilter names
//
// No pod is at a disadvantage. The other nodes are those that Filter would reject. If none of the
// named nodes fits, PostFilter makes all plugins judge the other nodes as well, before preemption
// runs: the pod gets their reasons, and preemption their verdicts. A change meanwhile is an event
// like any other for a pod that this plugin has rejected. If one of the other nodes fits after all,
// the next attempt is not narrowed, so this cannot happen twice in a row.
//
// # Scores
//
// kube-scheduler asks for a number a node. The numbers show which node is better, and by how much.
package nodes
