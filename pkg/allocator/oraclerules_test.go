package allocator_test

import (
	"errors"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// isTaken reports whether a holder excludes the wish from the device: with admin access only the claim
// itself, otherwise any claim. Shares exclude nobody.
func (o *oracle) isTaken(w *wish, d device) bool {
	if !w.admin && (o.state.AllocatedDevices.Has(d.id()) || !o.features.ConsumableCapacity && o.inUse(d)) {
		return true
	}
	return !o.isShared(d) && slices.ContainsFunc(o.chosen, func(c choice) bool {
		if o.asAPI && c.wish.admin && c.wish.claim != w.claim {
			return false
		}
		return c.id() == d.id() && (!w.admin || c.wish.claim == w.claim)
	})
}

func (o *oracle) chosenFor(claim int) []choice {
	var list []choice
	for _, c := range o.chosen {
		if c.wish.claim == claim {
			list = append(list, c)
		}
	}
	return list
}

type judgement int

const (
	fine judgement = iota
	unusable
	breaksConstraint
)

// judge reports whether the last choice is compatible with those before it.
func (o *oracle) judge() (judgement, error) {
	last := o.chosen[len(o.chosen)-1]
	switch {
	case len(last.slice.Spec.SkipNodeOperations) > 0 && !o.canSkipOperations():
		return unusable, nil
	case len(last.ConsumesCounters) > 0 && (!o.features.PartitionableDevices || !o.takesNothing(last.wish) && !o.mayDraw()):
		return unusable, nil
	case o.features.DeviceTaints && untolerated(last.device, last.wish.Tolerations):
		return unusable, nil
	}
	for _, constraint := range o.claims[last.wish.claim].Spec.Devices.Constraints {
		attributes, err := o.attributes(last.wish.claim, constraint)
		if err != nil && o.asAPI {
			o.doubt = true
			return unusable, nil
		}
		if err != nil {
			return unusable, err
		}
		if !satisfies(constraint, attributes, o.features.ListTypeAttributes) || o.asAPI && !satisfies(constraint, reversed(attributes), o.features.ListTypeAttributes) {
			return breaksConstraint, nil
		}
	}
	return fine, nil
}

// reversed lists the attributes the other way round: a constraint does not depend on the order.
func reversed(attributes []*resourceapi.DeviceAttribute) []*resourceapi.DeviceAttribute {
	list := slices.Clone(attributes)
	slices.Reverse(list)
	return list
}

// takesNothing reports whether the wish ignores all use, and takes nothing from others.
func (o *oracle) takesNothing(w *wish) bool { return w.admin && o.asAPI }

// attributes lists what a constraint sees of the chosen devices that it is about.
func (o *oracle) attributes(claim int, constraint resourceapi.DeviceConstraint) ([]*resourceapi.DeviceAttribute, error) {
	var list []*resourceapi.DeviceAttribute
	for _, c := range o.chosenFor(claim) {
		if !c.wish.concerns(constraint) {
			continue
		}
		attribute, err := attributeFor(o.ctx, o.celCache, c.wish, c.device, nameIn(constraint))
		if err != nil {
			return nil, err
		}
		list = append(list, attribute)
	}
	return list, nil
}

// concerns tells whether a constraint is about the wish.
func (w *wish) concerns(constraint resourceapi.DeviceConstraint) bool {
	return len(constraint.Requests) == 0 || slices.Contains(constraint.Requests, w.name()) ||
		w.parent != "" && slices.Contains(constraint.Requests, w.parent)
}

// mayDraw tells whether the last choice may draw from its counter sets. A further
// share of a device draws nothing.
func (o *oracle) mayDraw() bool {
	last := o.chosen[len(o.chosen)-1]
	pool := o.pools[slices.IndexFunc(o.pools, func(p oraclePool) bool { return p.key == last.pool() })]
	all := slices.Concat(pool.here, pool.elsewhere)
	var users []device
	for _, d := range devicesIn(all) {
		if o.inUse(d) {
			users = append(users, d)
		}
	}
	draws := false
	for i, c := range o.chosen {
		if o.takesNothing(c.wish) {
			continue
		}
		further := o.isShared(c.device) && (o.hasShares(c.device) ||
			slices.ContainsFunc(o.chosen[:i], func(before choice) bool { return before.id() == c.id() && !o.takesNothing(before.wish) }))
		draws = !further
		if c.pool() == pool.key && draws {
			users = append(users, c.device)
		}
	}
	if !draws {
		return true
	}
	return countersIn(all).draw(users...) && (!o.features.CompatibilityGroups || compatible(users[:len(users)-1], last.device))
}

// checkFeatures returns an error if a request uses a feature that is off.
func (o *oracle) checkFeatures(request *resourceapi.DeviceRequest) error {
	if len(request.FirstAvailable) > 0 && !o.features.PrioritizedList {
		return errors.New("alternatives are off")
	}
	if e := request.Exactly; e != nil && e.AdminAccess != nil && !o.features.AdminAccess {
		return errors.New("admin access is off")
	}
	for _, w := range wishesOf(0, 0, request) {
		if w.Capacity != nil && !o.features.ConsumableCapacity {
			return errors.New("capacity is off")
		}
		if len(w.DerivedAttributes) > 0 && !o.features.DerivedAttributes {
			return errors.New("derived attributes are off")
		}
	}
	return nil
}

// checkEach finds the alternatives that can never be satisfied.
func (o *oracle) checkEach(wishes []*wish) {
	for _, w := range wishes {
		request := &o.claims[w.claim].Spec.Devices.Requests[w.slot]
		own := *request
		if len(request.FirstAvailable) > 0 {
			own.FirstAvailable = []resourceapi.DeviceSubRequest{w.DeviceSubRequest}
		}
		switch w.err = o.checkFeatures(&own); {
		case w.err != nil:
		case o.classes[w.DeviceClassName] == nil:
			w.err = errors.New("no such class")
		default:
			w.err = o.findAll(w)
		}
		o.doubt = o.doubt || w.err != nil
	}
}

// hasRoom reports whether the device has enough capacity left for the wish, after the consumption of claims
// and of the chosen devices.
func (o *oracle) hasRoom(w *wish, d device) (bool, error) {
	if !o.features.ConsumableCapacity {
		return true, nil
	}
	if o.takesNothing(w) {
		return o.fitsWhole(w, d)
	}
	own, refused, err := o.consumed(w.Capacity, d)
	if err != nil || refused {
		return false, err
	}
	taken := []amounts{own}
	for _, c := range o.chosen {
		if c.id() == d.id() && o.isShared(d) && !o.takesNothing(c.wish) {
			others, _, _ := o.consumed(c.wish.Capacity, d)
			taken = append(taken, others)
		}
	}
	return o.hasRoomFor(d, taken...), nil
}

// selectorError is the error of node selectors that cannot be joined, because one of
// them has several terms. It does not matter after a device that fixes the node.
func selectorError(chosen []choice) error {
	for _, c := range chosen {
		nodeName, selector := c.slice.Spec.NodeName, c.slice.Spec.NodeSelector
		if ptr.Deref(c.slice.Spec.PerDeviceNodeSelection, false) {
			nodeName, selector = c.NodeName, c.NodeSelector
		}
		if nodeName != nil || ptr.Deref(c.BindsToNode, false) {
			return nil
		}
		if selector != nil && len(selector.NodeSelectorTerms) > 1 {
			return errors.New("several terms")
		}
	}
	return nil
}
