package allocator

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// spec is what ExactDeviceRequest and DeviceSubRequest have in common.
type spec struct {
	parent, name string // parent is set for alternatives
	className    string
	mode         resourceapi.DeviceAllocationMode
	count        int64
	adminAccess  *bool
	selectors    []resourceapi.DeviceSelector
	tolerations  []resourceapi.DeviceToleration
	capacity     *resourceapi.CapacityRequirements
	derived      []resourceapi.DeviceDerivedAttribute
}

func exactSpec(api *resourceapi.DeviceRequest) spec {
	e := api.Exactly
	return spec{
		name: api.Name, className: e.DeviceClassName, mode: e.AllocationMode, count: e.Count,
		adminAccess: e.AdminAccess, selectors: e.Selectors, tolerations: e.Tolerations,
		capacity: e.Capacity, derived: e.DerivedAttributes,
	}
}

func alternativeSpec(api *resourceapi.DeviceRequest, i int) spec {
	a := &api.FirstAvailable[i]
	return spec{
		parent: api.Name, name: a.Name, className: a.DeviceClassName, mode: a.AllocationMode, count: a.Count,
		selectors: a.Selectors, tolerations: a.Tolerations, capacity: a.Capacity, derived: a.DerivedAttributes,
	}
}

// request is a request or an alternative of one, resolved.
type request struct {
	spec
	id int // index in Task.requests
	// kind is the same for requests that have the same candidates on every node.
	kind   int
	claim  *claim
	class  *resourceapi.DeviceClass
	admin  bool
	wanted selector.Set
	err    error
}

// reference is the name by which results, constraints and configs refer to the
// request: its own, or "request/alternative".
func (r *request) reference() string {
	if r.parent != "" {
		return r.parent + "/" + r.name
	}
	return r.name
}

// all reports whether all matching devices are wanted.
func (r *request) all() bool { return r.mode == resourceapi.DeviceAllocationModeAll }

func (t *task) newRequest(c *claim, s spec, storage []request) {
	r := &storage[len(t.requests)]
	*r = request{spec: s, id: len(t.requests), claim: c, admin: ptr.Deref(s.adminAccess, false)}
	t.requests = append(t.requests, r)
	if err := t.resolve(r); err != nil {
		r.err = fmt.Errorf("claim %s, request %s: %w", claimname.Of(c.api), r.reference(), err)
	}
	t.setKind(r)
	t.all, t.admin = t.all || r.all(), t.admin || r.admin
	t.allConstrained = t.allConstrained || r.all() && len(c.constraints) > 0
}

// setKind finds an earlier request of the same kind, or makes the request the first
// of its kind.
func (t *task) setKind(r *request) {
	for _, first := range t.kinds {
		if first.sameKind(r) {
			r.kind = first.kind
			return
		}
	}
	r.wanted.Recur()
	r.kind = len(t.kinds)
	t.kinds = append(t.kinds, r)
}

// sameKind reports whether two requests have the same candidates on every node.
func (r *request) sameKind(other *request) bool {
	return r.err == nil && other.err == nil && r.wanted.Same(&other.wanted) && r.admin == other.admin &&
		r.mode == other.mode && sameTolerations(r.tolerations, other.tolerations) && sameCapacity(r.capacity, other.capacity)
}

// resolve checks the request against what the allocator can do and looks up its class.
func (t *task) resolve(r *request) error {
	features := t.settings.Features
	if !features.ConsumableCapacity && r.capacity != nil {
		return fmt.Errorf("asks for capacity, but the feature DRAConsumableCapacity is off")
	}
	if !features.DerivedAttributes && len(r.derived) > 0 {
		return fmt.Errorf("has derived attributes, but the feature DRADerivedAttributes is off")
	}
	for i, s := range r.selectors {
		if s.CEL == nil {
			return fmt.Errorf("selector %d is no CEL expression; it may use an API that this scheduler does not know", i)
		}
	}
	if !features.AdminAccess && r.adminAccess != nil {
		return fmt.Errorf("asks for admin access, but the feature DRAAdminAccess is off")
	}
	if r.className == "" {
		return fmt.Errorf("names no device class; it may use an API that this scheduler does not know")
	}
	class, err := t.settings.Classes.Get(r.className)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("device class %s does not exist", r.className)
		}
		return fmt.Errorf("device class %s cannot be read: %w", r.className, err)
	}
	for i, s := range class.Spec.Selectors {
		if s.CEL == nil {
			return fmt.Errorf("selector %d of device class %s is no CEL expression; "+
				"it may use an API that this scheduler does not know", i, class.Name)
		}
	}
	if r.mode != resourceapi.DeviceAllocationModeExactCount && !r.all() {
		return fmt.Errorf("allocation mode %q is not known; known are ExactCount and All", r.mode)
	}
	r.class = class
	r.wanted = selector.NewSet(class, r.claim.api, r.reference(), r.selectors)
	return nil
}

// sameTolerations and sameCapacity are cheap for the usual case that there are none.
func sameTolerations(a, b []resourceapi.DeviceToleration) bool {
	return len(a) == 0 && len(b) == 0 || equality.Semantic.DeepEqual(a, b)
}

func sameCapacity(a, b *resourceapi.CapacityRequirements) bool {
	return a == b || a != nil && b != nil && equality.Semantic.DeepEqual(a, b)
}

// tolerates reports whether none of the taints keeps the request from the device.
// Effects other than NoSchedule and NoExecute are informative (KEP-5055).
func (r *request) tolerates(taints []resourceapi.DeviceTaint) bool {
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

func (r *request) toleratesTaint(taint resourceapi.DeviceTaint) bool {
	for _, toleration := range r.tolerations {
		if resourceclaim.ToleratesTaint(toleration, taint) {
			return true
		}
	}
	return false
}

// derives reports whether the request derives an attribute itself.
func (r *request) derives(attribute string) bool {
	for _, derived := range r.derived {
		if string(derived.Name) == attribute {
			return true
		}
	}
	return false
}

// isCoveredBy reports whether a constraint of the claim covers the request. It may name
// the request or only one of its alternatives; naming none means all.
func (r *request) isCoveredBy(constraint *resourceapi.DeviceConstraint) bool {
	requests := constraint.Requests
	return len(requests) == 0 || slices.Contains(requests, r.reference()) ||
		r.parent != "" && slices.Contains(requests, r.parent)
}
