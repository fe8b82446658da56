// Package restarts tests the scheduler while something is restarted in the middle
// of a burst of pods: the scheduler itself (killed at random points, also with a
// second replica that takes over), etcd, the API server, and the history of the API
// server, so that the scheduler has to list everything again.
//
// Each test ends with all pods running, with the independent checker of test/checker
// having nothing to say, and with the proof that every device that no claim holds can
// be had. Each logs what it did in counts.
//
// Where something is killed is random. Each test logs the seed; it can be given again
// with -seed, although the scheduler's own timing will not be the same. -kills is how
// often the scheduler is killed in a burst of ten pods for each time: 50 unless it says
// otherwise.
package restarts
