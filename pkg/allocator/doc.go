// Package allocator finds devices for ResourceClaims. It is pure: no clients, no
// informers, no clocks, no global state; the same input gives the same plan.
//
// The order of things, and of the files:
//
//	Solver   knows features, classes and how to evaluate selectors    (solver.go)
//	Task     the claims of a pod, resolved once                       (task.go, request.go)
//	Site     a node, what it sees of the inventory, a ledger view     (solver.go)
//	candidates  per kind of request, which devices are usable at all  (setup.go, candidates.go, poolstate.go)
//	search   depth first in upstream's order, or a policy's           (search.go, place.go, taken.go, policy.go)
//	  constraints, over columns of attribute values                   (constraint.go, column.go, attribute.go, derived.go)
//	  what devices share: counters, groups, capacity                  (counters.go, groups.go, share.go, capacity.go)
//	  what need not be tried: classes of interchangeable devices,     (classes.go, countersets.go)
//	  states that are known to fail,                                  (failed.go)
//	  what cannot work out any more                                   (feasible.go, demand.go, capped.go, matching.go)
//	Outcome  allocation results, or why there are none                (result.go, reason.go, explain.go)
//	  reasons look back at the search one device at a time            (inspect.go, inspectcounters.go)
//	  shortages, in one line and at length                            (cause.go, tally.go, explainrequest.go, explaintext.go)
//	  requests, constraints and claims that compete                   (agreement.go, conflict.go)
//
// Of all solutions the search returns the one that the structured allocator of
// k8s.io/dynamic-resource-allocation meets first: claims and requests in their
// order, devices by pool, slice and position, the last choice changed first.
package allocator
