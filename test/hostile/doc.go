// Package hostile tests a running scheduler with input that a careless or malicious
// user or driver could write: claims, classes and slices at the limits of the API and
// beyond them, and a driver that rewrites its slices a hundred times a second. All input
// passes through the API server, which rejects part of it, so that the scheduler gets
// only input that can reach it in a cluster.
//
// The scheduler must never panic or end, must report clearly why a pod with a hostile
// claim waits, and must go on with the pods of others. To show that, a stream of
// ordinary pods runs all the time. The tests do not assert times. They assert that all
// ordinary pods get scheduled, and log one line with the time that it took and the
// duration of single attempts, from the scheduler's own metrics:
//
//	report: input=... pods=... longestWait=... longestGap=... attempts=... over64ms=... over128ms=...
//
// longestWait is the longest time from the creation of an ordinary pod until it was seen
// bound, longestGap the longest time in which no ordinary pod got bound; both include the
// time of the API server. attempts is the number of the scheduler's attempts for any pod,
// without the writes before binding: other pods are tried during these. An attempt of more
// than 100 ms counts as a stall; the metric's buckets end at 64 ms and 128 ms.
//
// With input=costly, claims have expressions at the API's cost limit, for classes of 2 and
// of 128 devices. An expression takes 0.2 s and more for one device, and cannot be
// interrupted for a moment. The scheduler evaluates them in the background; for the two
// devices the test waits until the result is there.
//
// With input=claim-0, slice-1 and so on, one object of a kind has a quantity with which
// resource.Quantity would calculate for hours.
//
// TestOthersPodsWhileObjectsArrive creates many objects of one tenant at once, while ordinary pods of another tenant arrive at a
// steady pace. It asserts the mean number of the first tenant's pods that are tried before each of the ordinary pods. It logs the
// mean and the maximum of the ordinary pods' wait, in all (wait) and from the scheduler's event until the first attempt (queued):
//
//	report: input=... pods=... wait=.../... queued=.../... attemptsBefore=.../...
//
// TestMemoryOfClaimsThatAreGone creates and deletes large claims one after the other, and asserts a limit on the growth of
// the scheduler's heap.
//
// The flag -hostile.seed changes the input, -hostile.claims its amount.
//
// Even the part in make test takes half a minute: ordinary pods run beside each kind of input.
package hostile
