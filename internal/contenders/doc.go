// Package contenders tracks the pods of other schedulers that need devices. While such a pod waits, its
// scheduler may be about to allocate devices that this scheduler has just chosen. A scheduler without
// such pods cannot.
//
// Pods do not show whether their scheduler takes part in the commit protocol (docs/commit-protocol.md).
// Callers that learn it from the writes of that scheduler report it with Learn.
package contenders
