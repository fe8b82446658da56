// Package perf measures Quartermaster beside the in-tree plugin DynamicResources:
// the same workloads, on upstream's scheduler_perf, in one process, in turn.
// docs/design/performance.md explains how to run it and how to read what it prints.
//
// It is a module of its own because scheduler_perf needs modules that the scheduler
// does not, and so that neither the scheduler's tests nor its checks compile it.
package perf
