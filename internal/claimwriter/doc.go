// Package claimwriter is the one way in which Quartermaster writes ResourceClaims.
//
// It knows nothing of search: callers hand it the claim they looked at, the
// AllocationResult they decided on and the consumer it is for.
//
// # What holds for every write
//
//   - It carries the UID and the resourceVersion of the state on which it was
//     decided. A write that the server gets to see late can therefore never undo
//     something newer: the server answers it with 409 (write conflict). This is why
//     Unreserve is an update, too, and not a patch: a patch without
//     resourceVersion that was held up somewhere could remove the reservation
//     that the next scheduling attempt of the same pod has made meanwhile.
//   - After a write that failed, for whatever reason, the claim is read before
//     anything else is tried, and all preconditions are checked again on that
//     state. If it turns out that the write took effect and only its response
//     got lost, then that is success.
//   - The caller's copy of the claim may be stale, for example because it comes
//     from an informer. It only ever serves as the base of a first write, which
//     the server verifies, and so does a newer state that was left by the call for
//     the same claim for which this one had to wait. "Nothing to do" and "not
//     possible" are decided on what the server returned during the call.
//   - Nothing but the intended change is written: entries of drivers in
//     status.devices, finalizers and consumers of others stay as they are.
//     (Deallocate and Release remove status.devices together with the allocation
//     that these entries describe.)
//   - It is made in the name of FieldManager, so that managedFields tell who wrote an
//     allocation.
//
// # Which failures are retried
//
// Write conflicts (409) and failures which may go away by themselves: 429, any 5xx and
// everything that did not come from the server (connections refused or cut,
// timeouts). Both are bounded in number, with an increasing, randomized pause in
// between; a longer pause that the server asks for (Retry-After) is respected.
// client-go has already repeated requests with a Retry-After header several times
// before such an error gets here. All other answers (400, 401, 403, 422, ...)
// are final and get returned after one attempt.
//
// Which kind of error came back can be found out with errors.Is and the Err
// variables of this package, and with k8s.io/apimachinery/pkg/api/errors for
// what the server said.
//
// # Permissions
//
// The calls need these rights in the API group resource.k8s.io:
//
//	resourceclaims          get, update; create, delete for those made on behalf of pods
//	resourceclaims/status   update
//	resourceclaims/binding  update
//
// The last one is checked by the API server (cluster-wide, for the synthetic
// subresource) when status.allocation or status.reservedFor changes and the
// feature gate DRAResourceClaimGranularStatusAuthorization is on, as it is by
// default since Kubernetes 1.36. resourceclaims/driver is not needed because
// status.devices only changes when the allocation is removed, which the server
// does not check per driver.
package claimwriter
