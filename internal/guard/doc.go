// Package guard decides whether an allocation of devices may be stored, whoever writes it.
//
// The API server asks before it stores a change of a claim's status (a validating admission
// webhook), so it sees the allocations of all schedulers, one request each. What is held is in
// a ledger, and an allocation that passes is put there at once, as one in flight: the next
// one is judged by it, whether or not the first has arrived. That is what makes the decision
// exact, and not any waiting.
//
// # What becomes of an allocation that was approved
//
// The server stores an update only if the claim still has the version that it was decided on
// (Request.Version): etcd compares. So whatever happens to the answer, the request or the
// server, the write can be carried out only as long as nothing else was written to the claim. An approval
// ends when the watch shows the claim at a newer version: either it is allocated then, and the
// ledger has it from there, or it is not, and that write will never come. As long as the claim
// stays as it is, nobody can know; then something is written to it (Fence): its version grows,
// and whatever was on its way is refused.
//
// # Who decides
//
// One process, the holder of a Lease, and only after it has fenced every claim without
// allocation that was there when it got the Lease: what its predecessor may have approved, or what
// passed while nobody was there to ask, cannot be stored any more, however late it
// comes. No clock is involved but for the Lease itself, see Tenure.
//
// Book is the decision, without clients and goroutines. Guard is what runs it. It looks at clocks for what it does not
// owe to the devices that are held: how long to wait, and whether a namespace has used the time that it has for approvals of which
// nothing comes.
package guard
