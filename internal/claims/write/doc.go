// Package write makes all of Quartermaster's writes to ResourceClaims.
//
// It does not search for devices: callers pass the claim that they looked at, the AllocationResult
// that they decided on and the consumer that it is for.
//
// # Properties of every write
//
//   - It carries the UID and the resourceVersion of the state on which it was
//     decided. A write that reaches the server late can therefore never undo
//     something newer: the server answers it with 409 (write conflict). This is why
//     Unreserve is also an update and not a patch: a delayed patch without
//     resourceVersion could remove the reservation that the next attempt to
//     schedule the same pod has made meanwhile.
//   - After a failed write, whatever the reason, the claim is read before the next
//     try, and all preconditions are checked again on that state. If the write took
//     effect and only its response was lost, the operation succeeds.
//   - The caller's copy of the claim may be stale, for example because it comes
//     from an informer. It only serves as the base of a first write, which the
//     server verifies. The same holds for a newer state that an earlier call for the
//     claim left to this one. "Nothing to do" and "not possible" are decided on
//     states that the server returned during the call.
//   - Only the intended change is written: entries of drivers in status.devices,
//     and finalizers and consumers of others stay unchanged. (Deallocate and Release
//     remove status.devices together with the allocation that these entries
//     describe.)
//   - It is made as FieldManager, so that managedFields show the author of an
//     allocation.
//
// # Which failures are retried
//
// Write conflicts (409) and failures that may be temporary are retried: 429, any 5xx and all errors
// that are not answers of the server (connections refused or cut, timeouts). The number of retries
// is limited, with an increasing, randomized pause in between; a longer pause that the server asks
// for (Retry-After) is respected. client-go has already repeated requests with a Retry-After header
// several times before such an error gets here. All other answers (400, 401, 403, 422, ...) are
// final and are returned after one attempt.
//
// Use errors.Is with the Err variables of this package to tell errors apart, and
// k8s.io/apimachinery/pkg/api/errors for the server's errors.
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
//
// # Events
//
// Recorder tells users in events (events.k8s.io/v1) which devices a claim was allocated or has released, where and why: one
// event for each allocation that the API server has confirmed, and one for each release by this scheduler. One limit applies to
// the events of all profiles. What it leaves out is counted in the log.
//
// # Warnings of the guard
//
// A guard has the API server add a warning to the answer of each write of our field manager. If the warning is missing, the API
// server let the write pass without asking a guard (failurePolicy Ignore), and the scheduler knows at once that no guard is in
// place.
package write
