// Package placement plays the tasks of a production cluster on a real API server and measures how much
// of the GPUs gets allocated.
//
// It embeds the API server; see package test/harness. Nodes are simulated. docs/placement.md has what it gave,
// and make bench-placement plays a larger part of the cluster.
package placement
