// Package placement plays the tasks of a production cluster on a real API server and measures how much
// of the GPUs gets allocated.
//
// It embeds the API server; see package test/harness. Nodes are simulated. make bench-placement plays a larger
// part of the cluster, and published.txt has its figures.
package placement
