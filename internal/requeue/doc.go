// Package requeue decides which pods are tried again, and when: those that wait for devices or
// claims, after what may help them, with a pause where it need not.
//
// It knows what pods wait for, and hears of claims, slices, taint rules and devices that become
// free. It never looks for devices, and writes nothing.
package requeue
