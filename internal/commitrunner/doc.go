// Package commitrunner carries the commit protocol out: it begins where devices are planned for the
// claims of a pod, and ends when the pod is bound, or when what was written is rolled back. What is to
// be done next is decided by internal/commit alone. This package does it, with writes, the watch of
// claims and the clock, and tells what came of it:
//
//	Begin, PutInFlight   keep the planned devices from others     attempt.go
//	Commit               write, wait for the watch, check, bind   run.go, write.go, check.go, settle.go
//	Abort                release what was written                 release.go
//
// It does not know how devices are found, what nodes there are, or extension points.
package commitrunner
