// Package soak has three schedulers of ours and an unchanged kube-scheduler allocate the
// same devices for a while, under churn: pods with claims of their own and pods that
// share one come and go all the time, and drivers publish new generations of their
// slices meanwhile. SOAK_DURATION says how long (1m by default).
//
// While that goes on, claims are read again and again in search of a device that two of
// them hold with all their pods bound. In the end everything has to be free, and each
// scheduler of ours has to know that. What the schedulers of ours need for it is logged
// at several moments, so that one sees whether it stays the same.
package soak
