// Package allocationlog records the order in which claims were allocated, and so which of two claims
// with the same device was first.
//
// The API server protects a claim against two writers, but nothing protects a device against two
// claims. Instead there is an order: the resourceVersions of all ResourceClaims form one sequence
// of writes, and a watch delivers them in that sequence. A scheduler that writes an allocation and
// then waits (Log.Await) until its watch has delivered that write has seen all allocations
// written before. If one of them holds the same device, or if together they take more of a counter
// or a capacity than exists, the scheduler has lost (Log.Conflicts) and yields. If two writers
// both do that, the first one stays, and the second one yields.
//
// # Why the shared informer of the scheduler does not suffice
//
// After a new list, an informer delivers the changes object by object in no particular order.
// Seeing its own write then tells a scheduler nothing about other writes. The informer also drops
// managedFields, which name the author of an allocation. So the package has a watch of its own. A
// new list is applied at once, under the lock, and only then counts as delivered: "delivered up to"
// never runs ahead of what has been applied.
//
// # Knowledge of the order
//
// For each allocation the package keeps a Span of versions that contains the write of the
// allocation. If that write came as an event, the span is one version. If the allocation appeared
// in a list, its write is later than the versions delivered before the list, and not later than the
// version of the listed claim. If two spans overlap, the order is unknown. Then neither claim may
// be used: yielding is safe, going on is not.
//
// Repeated events (with a version already delivered) are ignored.
package allocationlog
