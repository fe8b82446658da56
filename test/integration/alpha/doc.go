// Package alpha tests the scheduler like package integration, in a cluster in which
// feature gates about devices are on that are off by default. Some schedulers have single
// gates flipped.
//
// The API server has all these gates on, so that it stores what they are about. A
// scheduler without a gate sees that as well, and must behave like a kube-scheduler
// without it.
//
// It takes a minute: schedulers start for each gate and each combination that matters.
package alpha
