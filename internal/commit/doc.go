// Package commit is the commit protocol (docs/commit-protocol.md) as it runs: a pure core
// without clock, client or goroutine. Step takes where an attempt to bind a pod stands and
// what has happened, and returns where it stands then and what has to be done. Whoever
// carries that out (the plugin's runner; the model in test/protocol) turns the result into
// the next event.
//
// Three things have a state:
//
//   - Attempt is one attempt to bind a pod, with all its claims. Its phases are the rules of
//     the protocol: write, see, check, settle, bind, and release if anything goes wrong.
//   - Claim is one claim of an attempt: what the server may know of it because of this
//     attempt, and what goes if the attempt fails. From there on the claim is on its own:
//     it is released by Claim.Step, however often that has to be tried.
//   - Group is a claim that is reserved for a PodGroup, and so is up to several attempts.
//
// The core knows claims by their position in the pod. What is planned for them, their
// versions and the errors belong to whoever carries the actions out.
package commit
