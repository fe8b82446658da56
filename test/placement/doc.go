// Package placement plays the tasks of a production cluster on a real API server and measures how much
// of the GPUs gets allocated.
//
// Nodes are simulated. make bench-placement plays a larger
// part of the cluster, and published.txt has its figures.
//
// Even the part in make test takes half a minute: each pod of a trace runs on a real API server.
package placement
