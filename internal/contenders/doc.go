// Package contenders follows the pods of other schedulers that need devices. As long as
// such a pod waits, its scheduler may be about to allocate what ours has just chosen; and
// a scheduler that has none cannot.
//
// Whether a scheduler takes part in the commit protocol (docs/commit-protocol.md), its
// pods do not tell. Who knows it from what that scheduler has written says so with Learn.
package contenders
