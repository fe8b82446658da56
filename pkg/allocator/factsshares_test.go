package allocator_test

import (
	"errors"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Like facts_test.go, for devices that can be shared (KEP-5075) and for compatibility
// groups.

// amounts are quantities by capacity.
type amounts = map[resourceapi.QualifiedName]resource.Quantity

// isShared tells whether a device can be given to several requests.
func (s scenario) isShared(d device) bool {
	return s.features.ConsumableCapacity && ptr.Deref(d.AllowMultipleAllocations, false)
}

// inUse tells whether any claim has a device or a share of it.
func (s scenario) inUse(d device) bool {
	return s.state.AllocatedDevices.Has(d.id()) || s.hasShares(d)
}

// hasShares tells whether any claim has a share of a device. It then draws from its
// counters already, and a further share draws nothing.
func (s scenario) hasShares(d device) bool {
	for id := range s.state.AllocatedSharedDeviceIDs {
		if id.GetDeviceID() == d.id() {
			return true
		}
	}
	_, consumed := s.state.AggregatedCapacity[d.id()]
	return consumed
}

// consumed returns the amounts that a request takes of each capacity of a device. It refuses if the device
// lacks a capacity or does not allow the amount.
func (s scenario) consumed(asked *resourceapi.CapacityRequirements, d device) (taken amounts, refused bool, err error) {
	requests := ptr.Deref(asked, resourceapi.CapacityRequirements{}).Requests
	for name := range requests {
		if _, found := d.Capacity[name]; !found {
			return nil, true, nil
		}
	}
	taken = make(amounts)
	for name, capacity := range d.Capacity {
		policy := ptr.Deref(capacity.RequestPolicy, resourceapi.CapacityRequestPolicy{})
		amount := ptr.Deref(policy.Default, capacity.Value)
		if request, found := requests[name]; found {
			var roundingErr error
			amount, roundingErr = s.roundUp(request, policy)
			err = errors.Join(err, roundingErr)
		}
		if amount.Sign() < 0 {
			err = errors.Join(err, errors.New("less than nothing"))
		}
		taken[name] = amount
	}
	for name, amount := range taken {
		refused = refused || err == nil && !s.allows(d.Capacity[name].RequestPolicy, amount)
	}
	return taken, refused, err
}

// roundUp is the smallest amount of the policy that is not less than what is asked.
func (s scenario) roundUp(asked resource.Quantity, policy resourceapi.CapacityRequestPolicy) (resource.Quantity, error) {
	switch valid := policy.ValidRange; {
	case valid == nil:
		for _, value := range policy.ValidValues {
			if asked.Cmp(value) <= 0 {
				return value, nil
			}
		}
		return asked, nil
	case asked.Cmp(*valid.Min) < 0:
		return *valid.Min, nil
	case valid.Step == nil:
		return asked, nil
	case asked.Cmp(s.largest()) > 0:
		return asked, errors.New("too much to calculate with")
	case asked.CmpInt64(1000) > 0:
		return asked, nil // No device of a test has that much.
	default:
		return s.firstStep(asked, valid), nil
	}
}

// firstStep goes up the steps of a range until what is asked is reached.
func (s scenario) firstStep(asked resource.Quantity, valid *resourceapi.CapacityRequestPolicyRange) resource.Quantity {
	amount, step := s.unit(*valid.Min), s.unit(*valid.Step)
	for amount.Cmp(s.unit(asked)) < 0 {
		amount.Add(step)
	}
	return amount
}

// unit rounds up to whole numbers unless fractions are supported.
func (s scenario) unit(q resource.Quantity) resource.Quantity {
	if s.features.FractionalCapacityRange {
		return q.DeepCopy()
	}
	return *resource.NewQuantity(q.Value(), q.Format)
}

// largest is the largest number that can be calculated with.
func (s scenario) largest() resource.Quantity {
	if s.features.FractionalCapacityRange {
		return *resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	}
	return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
}

// allows tells whether a policy allows an amount.
func (s scenario) allows(policy *resourceapi.CapacityRequestPolicy, amount resource.Quantity) bool {
	switch {
	case policy == nil || policy.Default != nil && policy.Default.Cmp(amount) == 0:
		return true
	case policy.ValidRange == nil:
		return len(policy.ValidValues) == 0 ||
			slices.ContainsFunc(policy.ValidValues, func(value resource.Quantity) bool { return value.Cmp(amount) == 0 })
	case policy.ValidRange.Max != nil && amount.Cmp(*policy.ValidRange.Max) > 0:
		return false
	case policy.ValidRange.Step == nil || amount.CmpInt64(1000) > 0:
		return true
	}
	onStep := s.firstStep(amount, policy.ValidRange)
	return onStep.Cmp(s.unit(amount)) == 0
}

// hasRoomFor tells whether a device has the amounts left, given what claims have and
// what else is taken of it.
func (s scenario) hasRoomFor(d device, taken ...amounts) bool {
	for name, capacity := range d.Capacity {
		sum := resource.Quantity{}
		if used := s.state.AggregatedCapacity[d.id()][name]; used != nil {
			sum.Add(*used)
		}
		for _, t := range taken {
			sum.Add(t[name])
		}
		if sum.Cmp(capacity.Value) > 0 {
			return false
		}
	}
	return true
}

// fitsWhole reports whether the wish fits an unused device.
func (s scenario) fitsWhole(w *wish, d device) (bool, error) {
	if !s.features.ConsumableCapacity {
		return true, nil
	}
	own, refused, err := s.consumed(w.Capacity, d)
	if err != nil || refused {
		return false, err
	}
	unused := scenario{features: s.features}
	return unused.hasRoomFor(d, own), nil
}

// canSkipOperations tells whether the kubelet of the node can leave out operations.
func (s scenario) canSkipOperations() bool {
	return s.features.OptionalNodeOperations && slices.Contains(s.node.Status.DeclaredFeatures, "DRAOptionalNodeOperations")
}

// compatible tells whether a device may draw from its counter sets beside those that
// draw from them already. If the latter contradict each other, the first one counts.
func compatible(users []device, d device) bool {
	for _, consumption := range d.ConsumesCounters {
		common := consumption.CompatibilityGroups
		first := true
		for _, user := range users {
			for _, other := range user.ConsumesCounters {
				if other.CounterSet != consumption.CounterSet {
					continue
				}
				if first && (len(other.CompatibilityGroups) == 0) != (len(consumption.CompatibilityGroups) == 0) {
					return false
				}
				first = false
				if len(other.CompatibilityGroups) > 0 {
					common = intersect(common, other.CompatibilityGroups)
				}
			}
		}
		if len(consumption.CompatibilityGroups) > 0 && len(common) == 0 {
			return false
		}
	}
	return true
}
