package checker

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// checkProtection: a claim with allocation has the finalizer, so that it does not
// vanish while its devices are in use.
func checkProtection(r *report, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation != nil && !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		r.violation(FinalizerMissing, claimObject(claim), "it is allocated, but does not have the finalizer %s", resourceapi.Finalizer)
	}
}

// wanted holds the fields of a request or subrequest that the devices have to satisfy.
type wanted struct {
	name     string // as in results: "request" or "request/subrequest"
	mode     resourceapi.DeviceAllocationMode
	count    int64
	admin    bool
	capacity *resourceapi.CapacityRequirements
}

// alternatives returns the alternatives that satisfy the request: one entry if it is exact, one per
// subrequest if it is a prioritized list (KEP-4816).
func alternatives(request *resourceapi.DeviceRequest) []wanted {
	if exactly := request.Exactly; exactly != nil {
		return []wanted{{
			name: request.Name, mode: exactly.AllocationMode, count: exactly.Count,
			admin: ptr.Deref(exactly.AdminAccess, false), capacity: exactly.Capacity,
		}}
	}
	var all []wanted
	for _, sub := range request.FirstAvailable {
		all = append(all, wanted{
			name: request.Name + "/" + sub.Name, mode: sub.AllocationMode, count: sub.Count, capacity: sub.Capacity,
		})
	}
	return all
}

// checkRequests: the allocation satisfies the requests in the spec of the claim.
func checkRequests(r *report, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	object := claimObject(claim)
	if n := len(Results(claim)); n > resourceapi.AllocationResultsMaxSize {
		r.violation(TooManyResults, object, "%d devices are allocated, but the API permits %d", n, resourceapi.AllocationResultsMaxSize)
	}
	got := map[string][]resourceapi.DeviceRequestAllocationResult{}
	for _, result := range Results(claim) {
		got[result.Request] = append(got[result.Request], result)
	}
	known := map[string]bool{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		var chosen []wanted
		for _, option := range alternatives(request) {
			known[option.name] = true
			if len(got[option.name]) > 0 {
				chosen = append(chosen, option)
			}
		}
		switch len(chosen) {
		case 0:
			r.violation(RequestNotSatisfied, object, "no devices are allocated for request %s", request.Name)
		case 1:
			checkRequest(r, object, chosen[0], got[chosen[0].name])
		default:
			r.violation(RequestNotSatisfied, object, "request %s must be satisfied by one of its subrequests, but devices are allocated for %s and %s", request.Name, chosen[0].name, chosen[1].name)
		}
	}
	for _, name := range sortedKeys(got) {
		if !known[name] {
			r.violation(RequestNotSatisfied, object, "%d devices are allocated for %q, but there is no such request", len(got[name]), name)
		}
	}
}

// checkRequest compares the devices with one request or subrequest. For mode "All", it can only
// check afterwards that there is at least one device.
func checkRequest(r *report, object string, want wanted, got []resourceapi.DeviceRequestAllocationResult) {
	count := max(want.count, 1) // The API's default is 1.
	exactCount := want.mode == "" || want.mode == resourceapi.DeviceAllocationModeExactCount
	if exactCount && int64(len(got)) != count {
		r.violation(RequestNotSatisfied, object, "request %s asks for %d devices, but %d are allocated", want.name, count, len(got))
	}
	for i := range got {
		if admin := ptr.Deref(got[i].AdminAccess, false); admin != want.admin {
			r.violation(RequestNotSatisfied, object, "request %s has admin access set to %t, but device %s was allocated with admin access set to %t", want.name, want.admin, deviceOf(&got[i]), admin)
		}
		if problem := shareTooSmall(want, &got[i]); problem != "" {
			r.violation(RequestNotSatisfied, object, "%s", problem)
		}
	}
}

// shareTooSmall compares the consumed capacity of a share with the requested one: rounding up is
// allowed, consuming less is not. The selection of a device that is not shared decides about its
// capacity, and that cannot be verified here.
func shareTooSmall(want wanted, got *resourceapi.DeviceRequestAllocationResult) string {
	if got.ShareID == nil || want.capacity == nil {
		return ""
	}
	for _, name := range sortedKeys(want.capacity.Requests) {
		requested := want.capacity.Requests[name]
		consumed := got.ConsumedCapacity[name]
		if consumed.Cmp(requested) < 0 {
			return fmt.Sprintf("request %s asks for %s of %s, but the share of device %s has %s", want.name, requested.String(), name, deviceOf(got), consumed.String())
		}
	}
	return ""
}
