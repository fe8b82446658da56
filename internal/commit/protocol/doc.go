// Package protocol implements the commit protocol (docs/design/commit-protocol.md) as a state machine without clock, client or
// goroutine. Step takes the state of an attempt to bind a pod and an event, and returns the next state and the actions
// to carry out. The caller (the plugin's runner; the model in test/protocol) turns the result of an action into the
// next event.
//
// Three things have a state:
//
//   - Attempt is one attempt to bind a pod, with all its claims. Its phases are the rules of
//     the protocol: write, see, check, settle, bind, and release if anything goes wrong.
//   - Claim is one claim of an attempt: what the server may know of it through this
//     attempt, and what to roll back if the attempt fails. After that the claim is independent:
//     Claim.Step releases it, however often that has to be tried.
//   - Group is a claim that is reserved for a PodGroup, so that several attempts share it.
//
// The package identifies claims by their position in the pod. The caller keeps the plans, the versions of the claims
// and the errors.
package protocol
