// Package capacity calculates how much allocations consume of the capacities of shareable devices (KEP-5075).
package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Consumption is the amount that one allocation of a device consumes of its capacities (KEP-5075).
type Consumption struct {
	Amounts Amounts
	// Refused is true if the device's request policies, or a capacity that the device lacks, rule the request out.
	Refused bool
}

var (
	errCapacityRange    = errors.New("the amount cannot be represented with the step of the device's request policy; ask for less")
	errUncountable      = errors.New("the number has too many digits to calculate with; ask for less")
	errCapacityNegative = errors.New("the amount would be negative; the driver must publish the device again")
)

// Rules configure how amounts are calculated.
type Rules struct {
	// Fractions allows fractional amounts (DRAFractionalCapacityRange).
	Fractions bool
}

// Consume returns the amounts that a request consumes of a device's capacities. It rounds the requested
// amount up as the request policy demands. Without a requested amount it takes the policy's default, or else
// the whole capacity.
//
// An error means that the amount makes no sense for this device. The claim then cannot be allocated at all,
// because trying every other device first could be abused to keep a scheduler busy.
func (r Rules) Consume(requested *resourceapi.CapacityRequirements, capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) (Consumption, error) {
	var asked map[resourceapi.QualifiedName]resource.Quantity
	if requested != nil {
		asked = requested.Requests
	}
	for name, amount := range asked {
		if !quantity.Countable(amount) {
			return Consumption{}, fmt.Errorf("capacity %s (%s asked for): %w", name, amount.String(), errUncountable)
		}
		if _, found := capacities[name]; !found {
			return Consumption{Refused: true}, nil
		}
	}
	result := Consumption{Amounts: make(Amounts, len(capacities))}
	for name, capacity := range capacities {
		if !Countable(&capacity) {
			return Consumption{Refused: true}, nil
		}
		takes := defaultAmount(&capacity)
		if quantity, found := asked[name]; found {
			var err error
			if takes, err = r.roundUp(quantity, capacity.RequestPolicy); err != nil {
				return Consumption{}, fmt.Errorf("capacity %s (%s asked for): %w", name, quantity.String(), err)
			}
		}
		if takes.Sign() < 0 {
			return Consumption{}, fmt.Errorf("capacity %s; %s: %w", name, takes.String(), errCapacityNegative)
		}
		result.Amounts[name] = takes
		if !r.allowed(takes, capacity.RequestPolicy) {
			result.Refused = true
		}
	}
	return result, nil
}

// Countable reports whether all quantities of a capacity are safe to calculate with.
func Countable(capacity *resourceapi.DeviceCapacity) bool {
	all := []resource.Quantity{capacity.Value}
	if policy := capacity.RequestPolicy; policy != nil {
		all = append(all, policy.ValidValues...)
		optional := []*resource.Quantity{policy.Default}
		if valid := policy.ValidRange; valid != nil {
			optional = append(optional, valid.Min, valid.Max, valid.Step)
		}
		for _, quantity := range optional {
			if quantity != nil {
				all = append(all, *quantity)
			}
		}
	}
	return !slices.ContainsFunc(all, func(q resource.Quantity) bool { return !quantity.Countable(q) })
}

func defaultAmount(capacity *resourceapi.DeviceCapacity) resource.Quantity {
	if policy := capacity.RequestPolicy; policy != nil && policy.Default != nil {
		return policy.Default.DeepCopy()
	}
	return capacity.Value.DeepCopy()
}

// roundUp returns the smallest amount that the policy allows and that is not less than the requested one. If
// there is none, it returns the requested amount, which allowed then rejects.
func (r Rules) roundUp(asked resource.Quantity, policy *resourceapi.CapacityRequestPolicy) (resource.Quantity, error) {
	switch {
	case policy == nil:
		return asked.DeepCopy(), nil
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return r.roundUpToStep(asked, policy.ValidRange)
	}
	for _, valid := range policy.ValidValues {
		if quantity.Compare(asked, valid) <= 0 {
			return valid.DeepCopy(), nil
		}
	}
	return asked.DeepCopy(), nil
}

func (r Rules) roundUpToStep(asked resource.Quantity, valid *resourceapi.CapacityRequestPolicyRange) (resource.Quantity, error) {
	if quantity.Compare(asked, *valid.Min) < 0 {
		return valid.Min.DeepCopy(), nil
	}
	if valid.Step == nil {
		return asked.DeepCopy(), nil
	}
	unit := r.unitOf(valid)
	from, ok := unit.count(asked)
	if !ok {
		return resource.Quantity{}, errCapacityRange
	}
	lowest, step := unit.value(*valid.Min), unit.value(*valid.Step)
	steps := (from - lowest) / step
	if (from-lowest)%step != 0 {
		steps++
	}
	if unit.checksOverflow(lowest) && steps > (math.MaxInt64-lowest)/step {
		return resource.Quantity{}, errCapacityRange
	}
	return unit.quantity(lowest+steps*step, valid.Step.Format), nil
}

// allowed reports whether the policy allows an quantity. The default is always allowed.
func (r Rules) allowed(takes resource.Quantity, policy *resourceapi.CapacityRequestPolicy) bool {
	switch {
	case policy == nil || policy.Default != nil && quantity.Equal(takes, *policy.Default):
		return true
	case policy.ValidRange != nil:
		return r.inRange(takes, policy.ValidRange)
	case len(policy.ValidValues) > 0:
		for _, valid := range policy.ValidValues {
			if quantity.Equal(takes, valid) {
				return true
			}
		}
		return false
	}
	return true
}

func (r Rules) inRange(takes resource.Quantity, valid *resourceapi.CapacityRequestPolicyRange) bool {
	if valid.Max != nil && quantity.Compare(takes, *valid.Max) > 0 {
		return false
	}
	if valid.Step == nil {
		return true
	}
	unit := r.unitOf(valid)
	if unit == milli {
		if _, ok := unit.count(takes); !ok {
			return false
		}
	}
	return (unit.value(takes)-unit.value(*valid.Min))%unit.value(*valid.Step) == 0
}

// unit is the unit in which a range is calculated.
type unit int64

const (
	whole unit = 1
	milli unit = 1000
)

// unitOf returns milli if fractions are supported (DRAFractionalCapacityRange) and
// all numbers of the range can be expressed in it.
func (r Rules) unitOf(valid *resourceapi.CapacityRequestPolicyRange) unit {
	if !r.Fractions {
		return whole
	}
	for _, q := range []*resource.Quantity{valid.Min, valid.Max, valid.Step} {
		if q == nil {
			continue
		}
		if _, ok := milli.count(*q); !ok {
			return whole
		}
	}
	if quantity.MilliValue(*valid.Step) < 1 {
		return whole
	}
	return milli
}

// value returns the quantity in the unit, rounded up.
func (u unit) value(q resource.Quantity) int64 {
	if u == milli {
		return quantity.MilliValue(q)
	}
	return quantity.Value(q)
}

// count returns the quantity in the unit, and whether the unit can represent it without overflow and, for
// milli, without loss.
func (u unit) count(q resource.Quantity) (int64, bool) {
	n := u.value(q)
	if u == milli {
		return n, quantity.Equal(q, *resource.NewMilliQuantity(n, q.Format))
	}
	return n, quantity.Compare(q, *resource.NewQuantity(math.MaxInt64, q.Format)) <= 0
}

// checksOverflow reports whether the overflow check is safe. A negative minimum, which the API does not
// allow, would make the check itself overflow.
func (u unit) checksOverflow(lowest int64) bool { return u == milli || lowest >= 0 }

func (u unit) quantity(n int64, format resource.Format) resource.Quantity {
	if u == milli && n%int64(milli) != 0 {
		return *resource.NewMilliQuantity(n, format)
	}
	return *resource.NewQuantity(n/int64(u), format)
}
