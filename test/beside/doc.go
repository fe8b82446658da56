// Package beside has schedulers run side by side on the same devices: as many pods as
// there are devices, each with a claim for one of them, half of the pods for each of
// two schedulers, all created at once. Once all pods are bound, no device may be
// allocated to two claims, whatever the two schedulers are, if at least one of them is
// ours. That two stock schedulers do get into each other's way shows that the test
// can fail.
//
// Then the same with what claims use a part of each: counters, capacities of shared devices,
// and counter sets whose devices need a compatibility group in common; also while drivers
// publish their pools anew, and while one of the two is killed and has a bad connection.
// Beside a stock scheduler, which does not participate, a conflict may be left there; it has to be
// reported. At last, the manifests of replace-default take over from a stock scheduler and
// back in the middle of a burst.
//
// Each test of two schedulers side by side makes BESIDE_RUNS runs (1 by default) and logs a
// line for each.
package beside
