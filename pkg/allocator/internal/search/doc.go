// Package search finds devices for a task, depth first, in upstream's order, and goes on for a better one.
//
//	Solve        a task and a node view: what came of looking         (answer.go, straight.go, errors.go)
//	candidates   per kind of request, which devices are usable at all (setup.go, candidates.go, pool.go)
//	the search   choose a device, go on, and roll back                (search.go, place.go, taken.go, memory.go)
//	  constraints, over columns of attribute values                   (constraint.go, derived.go)
//	  what devices share: counters, compatibility, capacity           (draw.go, compatibility.go, share.go)
//	  what need not be tried: classes of interchangeable devices,     (classes.go, partitions.go)
//	  states that are known to fail,                                  (failed.go)
//	  what cannot work out any more                                   (feasible.go, demand.go, capped.go)
//	the best     go on, in another order, as long as it pays        (improve.go, alike.go, solution.go)
//	  what is free, and how close devices are                        (room.go)
//	the result   what goes into the claims' status                    (result.go)
//	the facts    what others may know of it afterwards                (facts.go)
package search
