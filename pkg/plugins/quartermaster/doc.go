// Package quartermaster is the scheduler plugin that gives pods the devices they
// claim. It takes the place of the in-tree DynamicResources plugin.
//
// wire.go makes everything, in the order of dependencies; events.go registers all handlers of events. Each extension point has one
// file; the algorithms are in other packages:
//
//	PreEnqueue   check that all claims exist                    preenqueue.go (internal/claims, internal/queue)
//	PreFilter    resolve the claims into a task                 prefilter.go; its steps: group.go, claims.go,
//	                                                            extendedresources.go, task.go, nodes.go
//	Filter       look for devices on one node                   filter.go (pkg/allocator)
//	PostFilter   free an allocation that fits no node, evict    postfilter.go, preempt_*.go (internal/preemption)
//	PreScore     ask controllers about nodes                    score.go (internal/classicdra)
//	Score        prefer the first alternatives of requests      score.go (internal/nodes)
//	Reserve      put the plan into the ledger                   reserve.go (pkg/ledger)
//	PreBind      commit the plan                                prebind.go (internal/commit)
//	PostBind     end the use of a group's shared claims         prebind.go
//	Unreserve    undo Reserve and PreBind                       unreserve.go (internal/commit)
//	hints        which events may help a pod that did not fit   hint.go, hint_events.go
//
// Each feature has a package of its own, and a file here that connects it:
//
//	other schedulers without the protocol  internal/commit/foreign   foreign.go
//	dry runs of preemption                 internal/preemption       dryrun.go, preempt_group.go
//	devices that get ready late            internal/claims/binding   bindingconditions.go
//	extended resources                     internal/claims/extended  extendedresources.go
//	PodGroups of Kubernetes                internal/gang/workload    group.go, group_postfilter.go
//	PodGroups of scheduler-plugins         internal/gang/crd         gang.go, preempt_gang.go
//
// All profiles share the state of the cluster (internal/cluster); see shared.go. The state of one scheduling cycle
// is in cycle.go.
package quartermaster
