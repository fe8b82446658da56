// Package simulation lives through random histories of a cluster in virtual time: schedulers as package wiring makes them, the
// claim controller, taint eviction and kubelets, against an API server in memory, in a bubble of testing/synctest. A
// history follows from its seed. A quarter of an hour passes in some tenths of a second, so that leases, back-offs and
// flushes are lived through and not left out.
//
// Things also happen at moments: just before or just after a certain write of a scheduler, objects are deleted, the process
// ends or is stopped, or an answer is lost (moments.go, happenings.go, stops.go).
//
// While a history goes on, no device may be held twice, no pod be bound without its claims, and no claim be taken from a pod
// on a node. At the end, nothing may be left over, nobody may wait who would fit (package checker), and nobody who waits may
// keep devices; every tenth history then waits for five more minutes, in which little may be asked of the server. A panic, and a goroutine that is left after
// the end, are failures as well. A history with far too many failures or requests is ended before its time.
//
// An event of a history is a request that the API server in memory accepts or refuses, or an act: a step, or a moment that is reached. With
// the usual number of steps a history has 500 on average, and more than 500 histories take a minute of one processor. Both are printed.
//
// Besides devices for one claim there are, in some histories, devices of which claims consume capacity (shares.go), cards with partitions
// that draw from the same counters (partitions.go), admin access (admin.go), and classes whose selectors change (classes.go). With each
// allocation that is stored, plain sums say whether anything is in use twice or more than there is (holders.go).
//
// In some histories the API server asks a guard before it stores an allocation (guard.go). Then no device is held twice at
// any moment, also not by the foreign scheduler, which allocates what it thinks is free.
//
// In a bubble there is one time. The wall clock of a machine is wrong by shifting what its processes read and write (clocks.go), not
// what they remember: a Lease that was seen in time, for example.
//
// A history that fails is made smaller as long as it fails in the same way, and is told: its steps, and what the schedulers
// and controllers did between them. The steps of a seed are always the same. What happens between them is not quite: goroutines
// that are ready at the same virtual time run in any order, so a failing seed fails mostly, not always. -again says how often.
//
//	go test ./test/simulation                               # always the same few
//	make simulation                                         # new seeds, for ten minutes
//	go test ./test/simulation -seed 225 -histories 1 -v     # a seed that failed
//	go test ./test/simulation -about guard,crashes -v       # histories that have these themes (themes.go)
//	make simulation-faults                                  # does it see the faults that faults/*.patch put back?
package simulation
