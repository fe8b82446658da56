// Package simulation runs random histories of a cluster in virtual time: schedulers as package wiring makes them, the claim controller,
// taint eviction and kubelets, against an API server in memory, in a bubble of testing/synctest. A history follows from its seed. A
// quarter of an hour passes in some tenths of a second, so that leases, back-offs and flushes are part of each history.
//
// Things also happen at moments: just before or just after a certain write of a scheduler, objects are deleted, the process
// ends or is stopped, or an answer is lost (moments.go, happenings.go, stops.go).
//
// While a history runs, no device may be held twice, no pod may be bound without its claims, and no claim may be taken from a pod on a
// node. At the end, nothing may be left over, no pod may wait that would fit (package checker), and no waiting pod may keep devices;
// every tenth history then waits for five more minutes, in which the server may get only few requests. A panic, and a goroutine that is
// left after the end, are failures as well. A history with far too many failures or requests is ended early.
//
// An event of a history is a request that the API server in memory accepts or refuses, or an act: a step, or a moment that is reached.
// With the usual number of steps a history has 950 events on average, and 250 to 550 histories take a minute of one processor, depending
// on the machine. Both numbers are printed.
//
// Besides devices for one claim, some histories have devices whose capacity several claims consume (shares.go), cards with partitions
// that draw from the same counters (partitions.go), admin access (admin.go), and classes whose selectors change (classes.go). After each
// stored allocation, plain sums check that no device is in use twice and nothing exceeds what was published (holders.go).
//
// In some histories the API server asks a guard before it stores an allocation (guard.go). Then no device is held twice at any moment,
// not even by the foreign scheduler, which allocates what is free in its own view.
//
// A bubble has only one time. A wrong wall clock of a machine is simulated by shifting the times that its processes read and write
// (clocks.go), not those in their memory, such as the time at which a Lease was seen.
//
// A failing history is made smaller as long as it fails in the same way, and is printed: its steps, and what the schedulers and
// controllers did between them. The steps of a seed are always the same. The events between them may differ: goroutines that are ready at
// the same virtual time run in any order, so a failing seed fails mostly, not always. -again counts how often.
//
//	go test ./test/simulation                               # always the same few
//	make simulation                                         # new seeds, for ten minutes
//	go test ./test/simulation -seed 225 -histories 1 -v     # a seed that failed
//	go test ./test/simulation -about guard,crashes -v       # histories that have these themes (themes.go)
//	make simulation-faults                                  # does it see the faults that faults/*.patch put back?
package simulation
