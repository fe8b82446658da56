// Package hostile gives a running scheduler what a careless or malicious user or
// driver could: claims, classes and slices at the limits of the API and beyond them,
// and a driver that rewrites its slices a hundred times a second. Everything goes
// through the API server, which rejects part of it, so that what arrives is what can
// arrive in a cluster.
//
// The scheduler must live and never panic, say clearly why a pod with a hostile claim
// waits, and go on with the pods of others. For that, a stream of ordinary pods runs
// all the time. A test must not assert a time; it asserts that all of them get
// scheduled, and logs one line with how long that took and how long single attempts
// were, by the scheduler's own metrics:
//
//	report: input=... pods=... longestWait=... longestGap=... attempts=... over64ms=... over128ms=...
//
// longestWait is the longest time from creating an ordinary pod until it was seen
// bound, longestGap the longest time in which no ordinary pod got bound; both include
// what the API server took. attempts are the scheduler's attempts for any pod, without
// the writes before binding, during which others have their turn. What counts as a
// stall is an attempt over 100 ms; the metric's buckets end at 64 ms and 128 ms.
//
// With input=costly, claims have expressions at the API's cost limit, which take 0.2 s
// and more for one device, and for a moment in which nothing can interrupt them, for
// classes of 2 and of 128 devices. The scheduler evaluates them in the background; for
// the two devices the test waits until the answer is there.
//
// With input=claim-0, slice-1 and so on, one object of a kind has a quantity with which
// resource.Quantity would calculate for hours.
//
// TestOthersPodsWhileObjectsArrive has one tenant create many objects at once, while ordinary pods of another come at a
// steady pace. It asserts how many pods of the first are tried in the mean before each of the others, and logs how long these waited,
// in all and from when the scheduler saw them until their first attempt, in the mean and at most:
//
//	report: input=... pods=... wait=.../... queued=.../... attemptsBefore=.../...
//
// TestMemoryOfClaimsThatAreGone has a tenant create and delete large claims one after the other, and asserts what the
// scheduler's heap grows by.
//
// The flags -hostile.seed and -hostile.claims make other input, and more of it.
package hostile
