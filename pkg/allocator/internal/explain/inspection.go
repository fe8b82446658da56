package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// inspection judges the devices of one pool for one request, one device at a time, after the search. It knows
// more than the candidates of the search, and costs more.
type inspection struct {
	q       inquiry
	request *task.Request
	index   int // of the pool in the node view
	pool    *inventory.NodePool
	usage   *ledger.PoolUsage
	// usable and selection are the candidates of the search.
	usable                        bitset.Set
	selection                     *selector.Selection
	hidden, unsupported, occupied bitset.Set
	// constraints are those that cover the request.
	constraints []constraint
	// known caches the cause for each judged device; it is notJudged for others.
	known []Cause
}

const notJudged Cause = -1

// inspect returns the inspections of the pools that can be allocated from.
func (q inquiry) inspect(r *task.Request) []inspection {
	constraints := slices.DeleteFunc(q.constraintsOf(r.Claim), func(c constraint) bool { return !c.appliesTo(r) })
	list := make([]inspection, 0, len(q.Pools()))
	for i, pool := range q.Pools() {
		if pool.State != inventory.Complete {
			continue
		}
		in := inspection{q: q, request: r, index: i, pool: pool, usage: q.Usage(i), constraints: constraints}
		in.usable, in.selection = q.Candidates(r, i)
		in.hidden, in.unsupported, in.occupied = q.Excluded(i)
		list = append(list, in)
	}
	return list
}

// ofClass returns the devices that match the class, regardless of the request's selectors.
func (in *inspection) ofClass() bitset.Set {
	r := in.request
	if len(r.Selectors) == 0 {
		return in.selection.Matches
	}
	class := selector.NewSet(r.Class, r.Claim.API, r.Reference(), nil)
	selection, err := in.q.Asked().Settings().Evaluator.Select(context.WithoutCancel(in.q.Context()), in.pool, class)
	if err != nil {
		return in.selection.Matches
	}
	return selection.Matches
}

// failure returns the error of the selector that fails on a device.
func (in *inspection) failure(device int) *selector.Error {
	return in.request.Wanted.Error(in.pool, in.selection, device)
}

// ignores reports whether allocation mode All ignores the device.
func (in *inspection) ignores(device int) bool {
	return in.request.All() && (!in.pool.Reachable.Has(device) || bitset.Has(in.hidden, device) ||
		in.capacity(device) == TooSmall)
}

// cause returns the cause that keeps the request from a matching device.
func (in *inspection) cause(device int) Cause {
	if in.known == nil {
		in.known = slices.Repeat([]Cause{notJudged}, len(in.pool.Devices))
	}
	if in.known[device] == notJudged {
		in.known[device] = in.judge(device)
	}
	return in.known[device]
}

// judge checks the causes in their order.
func (in *inspection) judge(device int) Cause {
	switch {
	case !in.pool.Reachable.Has(device):
		return Unreachable
	case bitset.Has(in.unsupported, device), bitset.Has(in.hidden, device):
		return Unsupported
	case in.q.Asked().Settings().RefuseOfNode && in.pool.OfNode.Has(device):
		return OfNode
	}
	capacity := in.capacity(device)
	switch {
	case capacity == TooSmall:
		return TooSmall
	case in.missingAttribute(device) != "":
		return AttributeMissing
	case in.q.Asked().Settings().Features.DeviceTaints && !in.request.Tolerates(in.pool.Devices[device].Taints):
		return Tainted
	case !in.request.Admin && bitset.Has(in.occupied, device):
		return Held
	case in.request.TakesNothing:
	case capacity == Full:
		return Full
	case in.drawsNothing(device):
	case in.overdrawn() || len(in.shortCounters(device)) > 0:
		return CounterShort
	case len(in.unknown()) > 0:
		return CounterUnknown
	case !in.joins(device):
		return Incompatible
	}
	if !in.request.All() && !in.usable.Has(device) {
		return Held // Not held any more, but held when the search looked at the device.
	}
	return Available
}

// capacity returns TooSmall, Full or Available.
func (in *inspection) capacity(position int) Cause {
	if in.q.TakesWhole(in.request, in.index, position) {
		return Available
	}
	device := &in.pool.Devices[position]
	needed, err := in.q.Asked().Settings().Capacities().Consume(in.request.Capacity, device.Capacity)
	switch {
	case err != nil, needed.Refused, !needed.Amounts.Fit(device):
		return TooSmall
	case !needed.Amounts.Fit(device, capacity.Used(in.usage, device)):
		return Full
	}
	return Available
}

// shortCapacities returns the capacities with too little left on a device.
func (in *inspection) shortCapacities(device *inventory.Device) []shortfall {
	var list []shortfall
	needed, err := in.q.Asked().Settings().Capacities().Consume(in.request.Capacity, device.Capacity)
	if err != nil {
		return nil
	}
	taken := capacity.Used(in.usage, device)
	for name, published := range device.Capacity {
		if !capacity.Countable(&published) {
			continue
		}
		left := quantity.Difference(published.Value, taken[name])
		if takes := needed.Amounts[name]; quantity.Compare(takes, left) > 0 {
			list = append(list, shortfall{string(name), takes, left, published.Value})
		}
	}
	slices.SortFunc(list, func(a, b shortfall) int { return cmp.Compare(a.name, b.name) })
	return list
}

// unfit is a capacity that a device never has in the requested amount.
type unfit struct {
	name string
	lack
}

// unfitCapacities returns the requested capacities that a device never has, by name.
func (in *inspection) unfitCapacities(device *inventory.Device) []unfit {
	if in.request.Capacity == nil {
		return nil
	}
	var list []unfit
	for name, asked := range in.request.Capacity.Requests {
		if found := in.unfit(device, name, asked); found.text != "" {
			list = append(list, unfit{string(name), found})
		}
	}
	slices.SortFunc(list, func(a, b unfit) int { return cmp.Compare(a.name, b.name) })
	return list
}

// unfit returns the reason why a device never has a capacity in the requested amount, or the zero value.
func (in *inspection) unfit(device *inventory.Device, name resourceapi.QualifiedName, asked resource.Quantity) lack {
	published, found := device.Capacity[name]
	if !found {
		return lack{text: "not published"}
	}
	if !capacity.Countable(&published) {
		return lack{text: "published with an amount that has too many digits to calculate with"}
	}
	needed, err := in.q.Asked().Settings().Capacities().Consume(
		&resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: asked}},
		map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{name: published})
	takes := needed.Amounts[name]
	switch {
	case err != nil:
		return lack{text: err.Error()}
	case needed.Refused:
		if most := mostAllowed(published.RequestPolicy); most != nil && quantity.Compare(takes, *most) > 0 {
			return lack{fmt.Sprintf("%s asked and the request policy allows at most %s", asked.String(), most.String()), quantity.Difference(takes, *most)}
		}
		return lack{text: asked.String() + " asked and the request policy does not allow that"}
	case quantity.Compare(takes, published.Value) > 0:
		return lack{fmt.Sprintf("%s asked and %s there", asked.String(), published.Value.String()), quantity.Difference(takes, published.Value)}
	}
	return lack{}
}

// mostAllowed returns the maximum amount that a policy allows, nil if there is no limit. It ignores the
// default, which is always allowed, because a request never exceeds a limit with the default.
func mostAllowed(policy *resourceapi.CapacityRequestPolicy) *resource.Quantity {
	switch {
	case policy.ValidRange != nil:
		return policy.ValidRange.Max
	case len(policy.ValidValues) == 0:
		return nil
	}
	most := slices.MaxFunc(policy.ValidValues, quantity.Compare)
	return &most
}

// joins reports whether the compatibility groups of a device are compatible with those of the devices in use.
func (in *inspection) joins(device int) bool {
	if !in.q.Asked().Settings().Features.CompatibilityGroups {
		return true
	}
	return in.q.Joins(in.index, device)
}

// missingAttribute returns the name of an attribute that a constraint needs and that the device lacks, or has
// in an unsupported form; "" if there is none.
func (in *inspection) missingAttribute(device int) string {
	for i := range in.constraints {
		if _, found := in.values(&in.constraints[i], device); !found {
			return in.constraints[i].name.Full
		}
	}
	return ""
}

// values returns the values of a device for a constraint. found is false if that excludes the device. Without
// support for lists, the values may be empty nevertheless.
func (in *inspection) values(c *constraint, device int) (list []attribute.Value, found bool) {
	list, found, err := in.q.Values(in.request, c.index, in.index, device)
	if err != nil {
		return nil, true // Unknown, which excludes nothing.
	}
	if !found {
		return nil, false
	}
	return list, len(list) > 0 || !c.lists
}

// features returns the feature gates that a device needs and that are off.
func (in *inspection) features(device int) []string {
	var list []string
	features := in.q.Asked().Settings().Features
	if !features.PartitionableDevices && in.pool.Partitions.Has(device) {
		list = append(list, "DRAPartitionableDevices")
	}
	if bitset.Has(in.hidden, device) {
		list = append(list, "DRADeviceBindingConditions")
	}
	if in.pool.Skipping.Has(device) && bitset.Has(in.unsupported, device) {
		const gate = draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate
		if !features.OptionalNodeOperations {
			list = append(list, gate)
		} else if !slices.Contains(in.q.Node().Status.DeclaredFeatures, gate) {
			list = append(list, gate+" on the node")
		}
	}
	return list
}

// ofNode returns the resources of the node that a device stands for or needs.
func (in *inspection) ofNode(device int) []string {
	var list []string
	for name := range in.pool.Devices[device].NodeAllocatableResources {
		list = append(list, string(name))
	}
	slices.Sort(list)
	return list
}

// taints returns the taints that the request does not tolerate.
func (in *inspection) taints(device int) []resourceapi.DeviceTaint {
	return slices.DeleteFunc(slices.Clone(in.pool.Devices[device].Taints), func(taint resourceapi.DeviceTaint) bool {
		return in.request.Tolerates([]resourceapi.DeviceTaint{taint})
	})
}

// users returns the distinct claims that have a device or a share of it.
func (in *inspection) users(device string) []ledger.ClaimRef {
	usage := in.usage.Device(device)
	users := make(map[ledger.ClaimRef]bool)
	for _, holder := range usage.Holders {
		users[holder] = true
	}
	for _, share := range usage.Shares {
		users[share.Holder] = true
	}
	return slices.Collect(maps.Keys(users))
}
