// Package binding handles devices that get ready after they were allocated (KEP-5007): it reads the conditions
// that drivers report in a claim's status.devices, and lets a pod wait for them before it is bound.
//
// It writes neither claims nor pods. The caller decides what to do with a claim whose devices do not get ready.
package binding
