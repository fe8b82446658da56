package task

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// spec holds the common fields of ExactDeviceRequest and DeviceSubRequest.
type spec struct {
	Parent, Name string // Parent is set for alternatives
	ClassName    string
	mode         resourceapi.DeviceAllocationMode
	Count        int64
	adminAccess  *bool
	Selectors    []resourceapi.DeviceSelector
	Tolerations  []resourceapi.DeviceToleration
	Capacity     *resourceapi.CapacityRequirements
	Derived      []resourceapi.DeviceDerivedAttribute
}

func exactSpec(api *resourceapi.DeviceRequest) spec {
	e := api.Exactly
	return spec{
		Name: api.Name, ClassName: e.DeviceClassName, mode: e.AllocationMode, Count: e.Count,
		adminAccess: e.AdminAccess, Selectors: e.Selectors, Tolerations: e.Tolerations,
		Capacity: e.Capacity, Derived: e.DerivedAttributes,
	}
}

func alternativeSpec(api *resourceapi.DeviceRequest, i int) spec {
	a := &api.FirstAvailable[i]
	return spec{
		Parent: api.Name, Name: a.Name, ClassName: a.DeviceClassName, mode: a.AllocationMode, Count: a.Count,
		Selectors: a.Selectors, Tolerations: a.Tolerations, Capacity: a.Capacity, Derived: a.DerivedAttributes,
	}
}

// A Request is a resolved request, or a resolved alternative of one.
type Request struct {
	spec
	ID int // index in Task.Requests
	// Kind is equal for requests with the same candidates on every node.
	Kind  int
	Claim *Claim
	Class *resourceapi.DeviceClass
	Admin bool
	// TakesNothing is set for admin access: the request ignores other use of a device and takes nothing from
	// others. Upstream charges it instead.
	TakesNothing bool
	Wanted       selector.Set
	Err          error
}

// Reference is the name by which results, constraints and configs refer to the
// request: its own, or "request/alternative".
func (r *Request) Reference() string {
	if r.Parent != "" {
		return r.Parent + "/" + r.Name
	}
	return r.Name
}

// All reports whether the request wants all matching devices.
func (r *Request) All() bool { return r.mode == resourceapi.DeviceAllocationModeAll }

func (t *Task) newRequest(c *Claim, s spec, storage []Request) {
	r := &storage[len(t.requests)]
	*r = Request{spec: s, ID: len(t.requests), Claim: c, Admin: ptr.Deref(s.adminAccess, false)}
	r.TakesNothing = r.Admin && !t.settings.AsUpstream
	t.requests = append(t.requests, r)
	if err := t.resolve(r); err != nil {
		r.Err = fmt.Errorf("claim %s request %s: %w", dra.Of(c.API), r.Reference(), err)
	}
	t.setKind(r)
	t.all, t.admin = t.all || r.All(), t.admin || r.Admin
	t.allConstrained = t.allConstrained || r.All() && len(c.Constraints) > 0
}

// setKind finds an earlier request of the same kind, or makes the request the first of a new kind.
func (t *Task) setKind(r *Request) {
	for _, first := range t.kinds {
		if first.sameKind(r) {
			r.Kind = first.Kind
			return
		}
	}
	r.Wanted.Recur()
	r.Kind = len(t.kinds)
	t.kinds = append(t.kinds, r)
}

// sameKind reports whether two requests have the same candidates on every node.
func (r *Request) sameKind(other *Request) bool {
	return r.Err == nil && other.Err == nil && r.Wanted.Same(&other.Wanted) && r.Admin == other.Admin &&
		r.mode == other.mode && sameTolerations(r.Tolerations, other.Tolerations) && sameCapacity(r.Capacity, other.Capacity)
}

// resolve checks that the allocator supports the request, and looks up its class.
func (t *Task) resolve(r *Request) error {
	features := t.settings.Features
	if !features.ConsumableCapacity && r.Capacity != nil {
		return fmt.Errorf("asks for capacity but the feature DRAConsumableCapacity is off")
	}
	if !features.DerivedAttributes && len(r.Derived) > 0 {
		return fmt.Errorf("has derived attributes but the feature DRADerivedAttributes is off")
	}
	for i, s := range r.Selectors {
		if s.CEL == nil {
			return fmt.Errorf("selector %d is no CEL expression; it may use an API that this scheduler does not know", i)
		}
	}
	if !features.AdminAccess && r.adminAccess != nil {
		return fmt.Errorf("asks for admin access but the feature DRAAdminAccess is off")
	}
	if r.ClassName == "" {
		return fmt.Errorf("names no device class; it may use an API that this scheduler does not know")
	}
	class, err := t.settings.Classes.Get(r.ClassName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return &ClassMissing{r.ClassName}
		}
		return fmt.Errorf("device class %s cannot be read: %w", r.ClassName, err)
	}
	for i, s := range class.Spec.Selectors {
		if s.CEL == nil {
			return fmt.Errorf("selector %d of device class %s is no CEL expression; "+
				"it may use an API that this scheduler does not know", i, class.Name)
		}
	}
	if r.mode != resourceapi.DeviceAllocationModeExactCount && !r.All() {
		return fmt.Errorf("allocation mode %q is not known; known are ExactCount and All", r.mode)
	}
	r.Class = class
	r.Wanted = selector.NewSet(class, r.Claim.API, r.Reference(), r.Selectors)
	return nil
}

// ClassMissing is the error of a request for devices of a class that does not exist.
type ClassMissing struct{ Class string }

func (e *ClassMissing) Error() string { return "device class " + e.Class + " does not exist" }

// sameTolerations is cheap for the usual case without tolerations, like sameCapacity without capacity.
func sameTolerations(a, b []resourceapi.DeviceToleration) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}

func sameCapacity(a, b *resourceapi.CapacityRequirements) bool {
	return a == b || a != nil && b != nil && quantity.DeepEqual(a, b)
}

// Tolerates reports whether none of the taints keeps the request from the device.
// Effects other than NoSchedule and NoExecute are informative (KEP-5055).
func (r *Request) Tolerates(taints []resourceapi.DeviceTaint) bool {
	for _, taint := range taints {
		switch taint.Effect {
		case resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute:
			if !r.toleratesTaint(taint) {
				return false
			}
		}
	}
	return true
}

func (r *Request) toleratesTaint(taint resourceapi.DeviceTaint) bool {
	for _, toleration := range r.Tolerations {
		if resourceclaim.ToleratesTaint(toleration, taint) {
			return true
		}
	}
	return false
}

// Derives reports whether the request itself derives an attribute.
func (r *Request) Derives(attribute string) bool {
	return slices.ContainsFunc(r.Derived, func(derived resourceapi.DeviceDerivedAttribute) bool { return string(derived.Name) == attribute })
}

// IsCoveredBy reports whether a constraint of the claim covers the request. A constraint may name the request
// or only one of its alternatives; without names it covers all requests.
func (r *Request) IsCoveredBy(constraint *resourceapi.DeviceConstraint) bool {
	requests := constraint.Requests
	return len(requests) == 0 || slices.Contains(requests, r.Reference()) ||
		r.Parent != "" && slices.Contains(requests, r.Parent)
}
