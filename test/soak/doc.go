// Package soak has three schedulers of ours and an unchanged kube-scheduler allocate the
// same devices for a while, under churn: pods with claims of their own and pods that
// share one come and go all the time, and drivers publish new generations of their
// slices meanwhile. SOAK_DURATION says how long (1m by default): for half of it, those of
// ours report conflicts (onConflict: Report), then they evict as well.
//
// While that goes on, claims are read again and again in search of a device that two of
// them hold with all their pods bound. The pods of such a pair stay until it is reported:
// by events on both claims and on a pod of each, and by the metric. So that there are some,
// a user gives devices out a second time without looking. In the end everything has to be
// free, and each scheduler of ours has to know that. What the schedulers of ours need for
// it is logged at several moments, so that one sees whether it stays the same.
package soak
