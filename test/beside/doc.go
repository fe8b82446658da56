// Package beside has schedulers run side by side on the same devices: as many pods as
// there are devices, each with a claim for one of them, half of the pods for each of
// two schedulers, all created at once. Once all pods are bound, no device may be
// allocated to two claims, whatever the two schedulers are, if at least one of them is
// ours. That two stock schedulers do get into each other's way shows that the test
// can fail.
//
// Each test makes BESIDE_RUNS runs (1 by default) and logs a line for each.
package beside
