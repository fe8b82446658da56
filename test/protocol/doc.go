// Package protocol checks the commit protocol (docs/design/commit-protocol.md): a model of all that
// it meets, and a small checker that visits every state which can be reached.
//
// The steps of the protocol are those of internal/commit/protocol, which the plugin takes as well.
// The model has what is around them: an API server with claims and one sequence of versions,
// a watch for each scheduler that delivers writes in order and as late as it likes, and
// processes that can crash, fail or be slow between any two steps of an attempt. What is
// explored is each order in which all of these can happen. A part of the protocol is left
// out by telling the attempt what is not so: that the watch has delivered, that nothing is in
// conflict. And schedulers that do not take part are told that always.
//
// What must hold in every state (properties.go):
//   - bound pods never use more of a device, a capacity or a counter than there is;
//   - the claim of a bound pod is allocated as it was when the pod was bound, and
//     reserved for the pod;
//   - a state stays within reach in which all pods that exist are bound;
//   - once faults have ended, each pod gets bound, or bound pods leave too little for it
//     (liveness.go): nothing goes round for ever unless somebody is passed over for ever.
//
// And in every step: a claim that was allocated first does not yield to one that was
// allocated later, unless a list has made it impossible to tell.
//
// To keep the number of states finite, versions are renumbered in each state, which only
// keeps their order, and a watch is at most a few writes behind: writes wait while it is.
package protocol
