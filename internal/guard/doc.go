// Package guard decides whether an allocation of devices may be stored, by any scheduler.
//
// The API server asks before it stores a change of a claim's status (a validating admission webhook), so the guard
// sees the allocations of all schedulers, one request each. A ledger holds the current allocations. An approved
// allocation enters the ledger at once, as in flight: the next request is judged with it, whether or not the first
// one was stored. So the decision is exact without any waiting.
//
// # The end of an approval
//
// The server stores an update only if the claim still has the version that the update is based on (Request.Version):
// etcd compares. So whatever happens to the answer, the request or the server, the write can be stored only until
// another write to the claim. An approval ends when the watch shows the claim at a newer version: either the claim is
// allocated and the ledger has the allocation, or it is not and the approved write will never be stored. While the
// claim does not change, the guard cannot know; then it writes to the claim itself (Fence): the version grows, and
// the server refuses the approved write.
//
// # The deciding process
//
// One process decides: the holder of a Lease, after it has fenced every claim that had no allocation when it got the
// Lease. After that, an allocation that a predecessor approved, or that passed without a guard, cannot be stored any
// more, however late it arrives. No clock is involved except for the Lease itself, see Tenure.
//
// Book makes the decisions, without clients and goroutines. Guard runs it. Guard uses clocks only where held devices
// do not depend on them: for the time to wait, and for the limit on a namespace's approvals that are never stored.
package guard
