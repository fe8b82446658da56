// Package soak tests three of our schedulers and an unchanged kube-scheduler that allocate
// the same devices for a while, under churn: pods with claims of their own and pods that
// share a claim come and go all the time, and drivers publish new generations of their
// pools. SOAK_DURATION is the duration (30s by default). In its first half, our schedulers
// report conflicts (onConflict: Report); in the second half, they evict as well.
//
// Meanwhile the test reads the claims again and again. It looks for a device that two claims
// hold with all their pods bound. The pods of such a pair stay until the conflict is reported:
// by events on both claims and on a pod of each, and by the metric. A user causes such
// conflicts: it allocates devices a second time without looking. In the end all devices
// have to be free, and each of our schedulers has to know that. The test logs the resources
// that our schedulers use at several moments, to show whether they stay the same.
package soak
