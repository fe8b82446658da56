// Package protocol checks the commit protocol (docs/design/commit-protocol.md). It has a model of
// the protocol's environment, and a small checker that visits every state which can be reached.
//
// The steps of the protocol are those of internal/commit/protocol, which the plugin takes as well.
// The model adds their environment: an API server with claims and one sequence of versions, a watch
// for each scheduler that delivers writes in order and with any delay, and processes that can
// crash, fail or be slow between any two steps of an attempt. The checker explores each order in
// which all of these can happen. A flaw leaves a part of the protocol out by giving the attempt
// false answers: that the watch has delivered, that nothing is in conflict. Schedulers that do not
// take part always get these answers.
//
// What must hold in every state (properties.go):
//   - bound pods never use more of a device, a capacity or a counter than there is;
//   - the claim of a bound pod is allocated as it was when the pod was bound, and
//     reserved for the pod;
//   - a state stays within reach in which all pods that exist are bound;
//   - once faults have ended, each pod gets bound, or bound pods leave too little for it
//     (liveness.go): nothing goes round for ever unless somebody is passed over for ever.
//
// Also, in every step: a claim that was allocated first does not yield to a claim that was
// allocated later, unless a list has hidden their order.
//
// To keep the number of states finite, versions are renumbered in each state, which only
// keeps their order, and a watch is at most a few writes behind: writes wait while it is.
//
// It takes half a minute: the checker visits each state of models with hundreds of thousands of them.
package protocol
