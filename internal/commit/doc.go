// Package commit executes the commit protocol for the claims of a pod. It begins when devices are
// planned for the claims, and ends when the pod is bound, or when the writes are rolled back.
// internal/commit/protocol alone decides the next step. This package carries it out, with writes, the watch of
// claims and the clock, and reports the result:
//
//	Begin, PutInFlight   keep the planned devices from others     attempt.go
//	Commit               write, wait for the watch, check, bind   run.go, write.go, check.go, settle.go
//	Abort                release what was written                 release.go
//
// It does not know how devices are found, which nodes exist, or extension points.
//
// # After a change of leaders
//
// Failover leaves alone what another process has reserved for pods. A process that died or lost its lease may have sent their
// bindings, and these may arrive for as long as the API server keeps a request. Unlike writes to claims, a late binding cannot
// be told from one in time: a pod whose claim was released meanwhile would be on a node without its devices.
package commit
