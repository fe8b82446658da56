// Package preemption finds the pods of lower priority that have to go so that a pod gets devices, and evicts
// them.
//
// Which victims a node needs and which node is the best is for upstream's preemption to say: PodDisruptionBudgets,
// reprieve, criteria, graceful termination are the same as for CPU. What is added is who holds devices: pods hold
// them by way of claims, alone or together with others, and not only on the node where they are taken.
package preemption
