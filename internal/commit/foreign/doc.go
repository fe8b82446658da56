// Package foreign handles schedulers that do not take part in the commit protocol (docs/design/commit-protocol.md): what they may be
// about to allocate, to their pods that wait for devices or to claims that they have announced, and for how long a pod of this
// scheduler therefore lets its claims settle before and after these are written.
//
// Registry follows the pods of other schedulers that need devices. While such a pod waits, its scheduler may be about to
// allocate what this one has just chosen; a scheduler without such pods cannot. Pods do not tell whether their scheduler takes
// part in the protocol. Learn records it, for those who know from what that scheduler has written.
//
// It does not know how devices are found, what becomes of a claim that settles, or extension points.
package foreign
