// Command process measures the scheduler as a process of its own, with nothing else
// in it, with Quartermaster and, as the stock kube-scheduler, with the in-tree plugin,
// on the same cluster, one after the other: what heap and CPU time it needs, and what
// becomes of that while drivers republish, while nodes come and go, and after a restart.
//
// It complements the workloads on scheduler_perf, where the scheduler shares a
// process with the API server.
package main
