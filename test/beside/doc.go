// Package beside tests schedulers that run side by side on the same devices. A test creates
// as many pods as there are devices, all at once, each with a claim for one device. Two
// schedulers get half of the pods each. Once all pods are bound, no device may be allocated
// to two claims if at least one of the schedulers is ours. Two stock schedulers do conflict,
// which shows that the test can fail.
//
// Other tests do the same with resources that claims share: counters, capacities of shared
// devices, and counter sets whose devices need a compatibility group in common. In some,
// drivers publish new generations of their pools meanwhile, or one of the two schedulers is
// killed and has a bad connection. Beside a stock scheduler, which does not participate, a
// conflict may remain; it has to be reported. Another test replaces a stock scheduler by the
// manifests of replace-default, and the other way round, in the middle of a burst.
//
// Each test of two schedulers side by side makes BESIDE_RUNS runs (1 by default) and logs a
// line for each.
//
// Even the part in make test takes a minute: it fills hundreds of devices under two or more schedulers.
package beside
