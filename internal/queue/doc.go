// Package queue decides when pods that wait for devices or claims are tried again: after events that
// may help them, at once or after a pause.
//
// It tracks what pods wait for, and receives events of claims, slices, taint rules and devices that
// become free. It never looks for devices, and writes nothing.
//
// UnqueuedReporter tells users why a pod does not get into the scheduling queue. The scheduler reports no result of PreEnqueue, so a pod
// whose template does not exist would be stuck for no stated reason.
//
// Signer tells kube-scheduler which pods are alike as far as devices are concerned: it tries the nodes that were found for one of
// them first for the next (opportunistic batching).
package queue
