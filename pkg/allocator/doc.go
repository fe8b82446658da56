// Package allocator finds devices for ResourceClaims. It is pure: no clients, no informers, no clocks, no
// global state; the same input gives the same plan.
//
//	Solver   knows features, classes and how to evaluate selectors
//	Task     the claims of a pod, resolved once
//	NodeView     a node view: the node, what it sees of the inventory, a ledger view
//	Outcome  allocation results, or why there are none
//	New      a drop-in for structured.NewAllocator
//
// This package is the public API. Its internal packages, from the bottom up:
//
//	internal/task       the input: claims, requests, alternatives, settings
//	internal/capacity   the amounts that shares of a device consume
//	internal/objective  what makes one plan better than another
//	internal/search     the search
//	internal/explain    why there is no solution, as data and as text, from facts that the search gives
//	internal/allocated  the allocated state of package structured, for New
//
// Of all solutions the search returns the one that the structured allocator of
// k8s.io/dynamic-resource-allocation meets first: claims and requests in their order, devices by pool, slice
// and position, the last choice changed first.
package allocator
