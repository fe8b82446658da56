// Package nodes does what concerns several nodes at once: which nodes PreFilter names, scores from what devices cost, and the
// reasons in a pod's status.
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
// kube-scheduler asks for a number a node. What counts is which node is the better one, and how much better it is.
package nodes
