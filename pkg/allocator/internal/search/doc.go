// Package search finds devices for a task, depth first, in upstream's order, and then looks for a better plan.
//
//	Solve        a task and a node view in, an answer out             (answer.go, straight.go, errors.go)
//	candidates   per kind of request, the devices that are usable     (setup.go, candidates.go, pool.go)
//	the search   choose a device, go on, and roll back                (search.go, place.go, taken.go, memory.go)
//	  constraints, over columns of attribute values                   (constraint.go, derived.go)
//	  shared things: counters, compatibility, capacity                (draw.go, compatibility.go, share.go)
//	  pruning: classes of interchangeable devices,                    (classes.go, partitions.go)
//	  states that are known to fail,                                  (failed.go)
//	  checks that enough devices are left                             (feasible.go, demand.go, capped.go)
//	the best     go on, in another order, as long as it pays          (improve.go, alike.go, solution.go)
//	  free devices, and their closeness                               (room.go)
//	whether devices suffice for all requests at once: a maximum flow  (matching.go)
//	the effort   bounded in steps, of one search and of several         (steps.go)
//	the result   the allocation for the claims' status                (result.go)
//	the facts    the data of a search for explanations                (facts.go)
package search
