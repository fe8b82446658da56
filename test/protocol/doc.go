// Package protocol is a model of the commit protocol (docs/commit-protocol.md), and a
// small checker that visits every state which the model can reach. There is no API server
// and no code of the plugin in it: it shows that the rules are right, not that they are
// followed.
//
// The model has an API server with claims and one sequence of versions, a watch for each
// scheduler that delivers writes in order and as late as it likes, and for each pod an
// attempt to bind it that can stop, fail or be forgotten between any two steps. What is
// explored is each order in which all of these can take their steps.
//
// What must hold in every state (properties.go):
//   - bound pods never use more of a device, a capacity or a counter than there is;
//   - the claim of a bound pod is allocated as it was when the pod was bound, and
//     reserved for the pod;
//   - a state stays within reach in which all pods that exist are bound.
//
// And in every step: a claim that was allocated first does not give way to one that was
// allocated later, unless a list has made it impossible to tell.
//
// To keep the number of states finite, versions are renumbered in each state, which only
// keeps their order, and a watch is at most a few writes behind: writes wait while it is.
package protocol
