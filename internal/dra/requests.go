package dra

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// A Request is a request of a claim, or one alternative of a request (KEP-4816). It has the fields that both have.
type Request struct {
	// Parent is the name of the request in the claim's spec.
	Parent string
	// Alternative is the name of the alternative, empty for a request without alternatives.
	Alternative string
	// Rank is the position of the alternative in the user's order of preference, 0 for a request without alternatives.
	Rank        int
	Class       string
	Mode        resourceapi.DeviceAllocationMode
	Count       int64
	AdminAccess bool // Alternatives cannot ask for it.
	Selectors   []resourceapi.DeviceSelector
	Capacity    *resourceapi.CapacityRequirements
}

// Name returns the name in status.allocation: "request" or "request/alternative".
func (r *Request) Name() string {
	if r.Alternative == "" {
		return r.Parent
	}
	return resourceclaim.CreateSubRequestRef(r.Parent, r.Alternative)
}

// Is reports whether r has a name in status.allocation.
func (r *Request) Is(name string) bool {
	if r.Alternative == "" {
		return name == r.Parent
	}
	// Name would allocate memory.
	n := len(r.Parent)
	return len(name) > n && name[:n] == r.Parent && name[n] == '/' && name[n+1:] == r.Alternative
}

// All reports whether the request is for all devices that match.
func (r *Request) All() bool { return r.Mode == resourceapi.DeviceAllocationModeAll }

// Requests iterates over the requests of a claim and their alternatives, in the order of the spec.
func Requests(claim *resourceapi.ResourceClaim) iter.Seq[Request] {
	return RequestsIn(claim.Spec.Devices.Requests)
}

// RequestsIn does the same as Requests for a list of requests.
func RequestsIn(requests []resourceapi.DeviceRequest) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for i := range requests {
			for r := range Alternatives(&requests[i]) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Alternatives iterates over the alternatives of one request. A request without alternatives counts as its only one.
// For a request of a kind that this version of the API does not know, it yields nothing. API servers refuse requests
// of two kinds; in a file, exactly wins, as it does in the allocator.
func Alternatives(request *resourceapi.DeviceRequest) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		if e := request.Exactly; e != nil {
			yield(Request{
				Parent: request.Name, Class: e.DeviceClassName, Mode: e.AllocationMode, Count: e.Count,
				AdminAccess: ptr.Deref(e.AdminAccess, false), Selectors: e.Selectors, Capacity: e.Capacity,
			})
			return
		}
		for i := range request.FirstAvailable {
			a := &request.FirstAvailable[i]
			if !yield(Request{
				Parent: request.Name, Alternative: a.Name, Rank: i, Class: a.DeviceClassName,
				Mode: a.AllocationMode, Count: a.Count, Selectors: a.Selectors, Capacity: a.Capacity,
			}) {
				return
			}
		}
	}
}

// ClassOf returns the device class of a request by its name in status.allocation, empty for an unknown name.
func ClassOf(claim *resourceapi.ResourceClaim, name string) string {
	for r := range Requests(claim) {
		if r.Is(name) {
			return r.Class
		}
	}
	return ""
}

// WantsAll reports whether any request of a claim, or any alternative, is for all devices that match.
func WantsAll(claim *resourceapi.ResourceClaim) bool {
	for r := range Requests(claim) {
		if r.All() {
			return true
		}
	}
	return false
}

// WithAlternatives returns a copy of a claim in which each request has at most the given number of its alternatives,
// without the first ones up to from. Each request keeps at least its last alternative.
func WithAlternatives(claim *resourceapi.ResourceClaim, from, most int) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if n := len(request.FirstAvailable); n > 0 {
			first := min(from, n-1)
			request.FirstAvailable = request.FirstAvailable[first:min(first+most, n)]
		}
	}
	return claim
}
