// Command process measures the scheduler as a process of its own, with nothing else
// in it: what heap and CPU time it needs, with Quartermaster and, as the stock
// kube-scheduler, with the in-tree plugin, on the same cluster, one after the other.
//
// It complements the workloads on scheduler_perf, where the scheduler shares a
// process with the API server.
package main
