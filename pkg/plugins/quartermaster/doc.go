// Package quartermaster is the scheduler plugin that gives pods the devices they
// claim. It takes the place of the in-tree DynamicResources plugin.
//
// Each extension point has one file; the algorithms are in other packages:
//
//	PreEnqueue   check that all claims exist                        preenqueue.go (internal/claims, internal/queue)
//	PreFilter    resolve the claims into a task                     prefilter.go; its steps: podgroup.go, claims.go,
//	                                                                extendedresources.go, task.go, nodes.go
//	Filter       look for devices on one node (pkg/allocator)       filter.go (internal/nodes)
//	PostFilter   free an allocation that fits no node               postfilter.go
//	PreScore     ask controllers about nodes (internal/classicdra)      score.go
//	Score        prefer the first alternatives of requests          score.go
//	Reserve      put the plan into the ledger (pkg/ledger)          reserve.go
//	PreBind      commit the plan (internal/commit)            prebind.go, commits.go
//	PostBind     end the use of a group's shared claims             prebind.go
//	Unreserve    undo Reserve and PreBind (internal/commit)   unreserve.go
//	events       which events may help a pod that did not fit       requeue.go (internal/queue, pkg/plugins/quartermaster)
//
// Each feature has a package of its own, and a file here that connects it:
//
//	other schedulers without the protocol  internal/commit/foreign  contest.go
//	dry runs of preemption                 internal/preemption      dryrun.go, grouppreemption.go
//	unresolved conflicts                   internal/commit/conflicts conflicts.go
//	devices that get ready late            internal/claims/binding  bindingconditions.go
//	extended resources                     internal/claims/extended extendedresources.go
//	claims of older servers                internal/classicdra      olderservers.go
//	pods that are scheduled together       internal/gang/workload   podgroup.go, postfiltergroup.go
//
// All profiles share the state of the cluster (internal/cluster); see shared.go. The state of one scheduling cycle
// is in cycle.go.
package quartermaster
