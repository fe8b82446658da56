// Package preemption finds the pods of lower priority that have to go so that a pod gets devices, and evicts
// them.
//
// Upstream's preemption selects the victims on a node and the best node: PodDisruptionBudgets, reprieve, criteria,
// graceful termination are the same as for CPU. This package adds who holds devices: pods hold them through
// claims, alone or shared with other pods, and not only on the node where the devices are taken.
package preemption
