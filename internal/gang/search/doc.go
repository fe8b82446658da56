// Package search finds nodes for all pods of a gang at once: it places at least the minimum number of pods that have
// to run together, or none.
//
//	Problem   the pods by class, the nodes to try, how many pods have to get one
//	Judge     says whether one more pod fits on a node, beside those that were added before
//	Search    tries; earlier choices are revisited, within a budget of steps
//	Result    where each pod goes, or the most pods that fit, or that the search gave up
//
// Interchangeable pods form one class, and are counted instead of told apart. If pods on one node change nothing on
// other nodes, each node is asked once how many pods it takes, and the numbers are added up: the answer is exact, and
// a thousand pods on thousands of nodes take one look at each node. Otherwise pods are placed one after the other,
// with backtracking.
//
// The package has no side effects, and knows nothing of devices, claims and kube-scheduler. The Judge decides what
// makes a pod fit.
package search
