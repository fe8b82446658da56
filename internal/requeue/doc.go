// Package requeue decides when pods that wait for devices or claims are tried again: after events that
// may help them, at once or after a pause.
//
// It tracks what pods wait for, and receives events of claims, slices, taint rules and devices that
// become free. It never looks for devices, and writes nothing.
package requeue
