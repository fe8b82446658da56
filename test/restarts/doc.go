// Package restarts tests the scheduler while something is restarted in the middle
// of a burst of pods: the scheduler itself (killed at random points, also with a
// second replica that takes over), etcd, the API server, and the history of the API
// server, so that the scheduler has to list everything again.
//
// At the end of each test, all pods have to run, the independent checker of test/checker
// must find no violation, and every device that no claim holds has to be available. Each
// test logs the numbers of its actions.
//
// The points of the kills are random. Each test logs the seed, and -seed sets it, although
// the scheduler's own timing will not be the same. -kills is the number of times that the
// scheduler is killed (50 by default); the burst has ten pods for each kill.
//
// Even the part in make test takes a minute: schedulers end, and wait for their Lease as it is shipped.
package restarts
