// Package gang finds nodes for all pods of a gang at once: at least so many of its pods as have to run together, or
// none of them.
//
//	Problem   the pods by class, the nodes to try, how many pods have to get one
//	Judge     says whether one more pod fits on a node, beside those that were added before
//	Search    tries; earlier choices are revisited, within a budget of steps
//	Result    who goes where, or how many fit at most, or that nobody knows
//
// Pods that are alike are one class, and are counted and not told apart. Where what a pod takes on one node changes
// nothing on others, each node is asked once how many it takes, and numbers are added up: the answer is exact, and a
// thousand pods on thousands of nodes take one look at each node. Elsewhere pods are placed one after the other, with
// turning back.
//
// The package is pure. What makes a pod fit is the Judge's business: it knows nothing of devices, claims and
// kube-scheduler.
package gang
