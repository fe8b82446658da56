// Package claimlog knows in which order claims were allocated, and so which of two
// claims that hold the same device was first.
//
// The API server protects a claim against two writers, but nothing protects a device
// against two claims. What there is instead is an order: the resourceVersions of all
// ResourceClaims are one sequence, that of the writes, and a watch delivers them in that
// sequence. Whoever has written an allocation and then waits (Order.Await) until his
// watch has delivered that write has seen every allocation that was written before.
// If one of them holds the same device, or if together they take more of a counter or
// a capacity than there is, he has lost (Order.Conflicts) and yields. Of two writers
// who both do that, the first one stays, and the second one finds out.
//
// # Why the shared informer of the scheduler will not do
//
// After a new list, an informer delivers what has changed object by object in no
// particular order. Seeing one's own write then proves nothing about others. It also
// drops managedFields, which say who wrote an allocation. So the package has a watch of
// its own. A new list is applied at once, under the lock, and only then counts as
// delivered: "delivered up to" never runs ahead of what has been applied.
//
// # What is known of the order
//
// For each allocation the package keeps a Span of versions, in which the write lies
// that made it. If that write came as an event, the span is one version. If the
// allocation showed up in a list, its write lies after what had been delivered before
// the list, and not after the version of the listed claim. Spans that overlap leave
// open who was first. Then neither claim may be used: yielding is safe, going on is
// not.
//
// Repeated events (a version that has been delivered already) are ignored.
package claimlog
