// Package release deallocates claims of pods that were evicted, for the pod that waits for
// their devices.
//
// When the last consumer of a claim is gone, kube-controller-manager's resourceclaim controller
// clears status.allocation, at some time. A preemptor need not wait for that: as soon as nobody
// uses a claim any more that it waits for, this package makes the same write. Whoever is first,
// nothing is lost: each write only applies to the state of the claim that was judged, and a claim
// that is deallocated or gone already is what was wanted. All other claims are left to the
// controller, and so are claims of which only some consumers are gone.
//
// By which rule a consumer is gone is the controller's as well. A pod is if it
//   - is not on the API server under its name with its UID,
//   - has ended (status.phase is Succeeded or Failed), or
//   - is being deleted and was never bound to a node.
//
// The informer of pods may not have heard of a pod yet for which a claim is reserved already, so
// a pod that it does not have is looked for on the API server, unless the informer has had it
// and has told that it went. (The informer of kube-scheduler leaves out pods that have ended.)
// Consumers other than pods and PodGroups are never taken for gone.
//
// A claim without consumers that is still allocated, as an attempt to schedule that failed may
// leave it behind, is released as well. The controller would not do that.
package release
