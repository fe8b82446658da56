// Package alpha tests the scheduler like package integration, in a cluster in which
// feature gates about devices are on that are off by default, and with schedulers of
// which single gates are flipped.
//
// The API server has all these gates on, so that it stores what they are about. A
// scheduler without a gate sees that as well, and has to do what kube-scheduler does
// without it.
package alpha
