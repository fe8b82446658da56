package allocator_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// valuer calculates values of plans in an obviously correct way: each time from scratch, from the list of the
// chosen devices.
type valuer struct {
	*oracle
	t         *testing.T
	objective *allocator.Objective
	failed    func(inventory.PoolID, string) int
	// published are the devices without any use.
	published []placement.Device
	// takes is by the position of a device, plus 1: a place has the position of the first device that takes it.
	takes []uint64
}

func newValuer(t *testing.T, s scenario, celCache *cel.Cache, o *allocator.Objective) *valuer {
	v := &valuer{oracle: newOracle(t.Context(), s, celCache), t: t, objective: o}
	for i, d := range v.devices {
		v.published = append(v.published, placement.Device{Kinds: v.kinds(d), Unit: v.unit(i), Size: v.size(d)})
	}
	v.takes = make([]uint64, len(v.devices)+1)
	names := map[int32][]string{} // by unit: the bits
	taken := map[string]int32{}
	for i, d := range v.devices {
		unit, parts, key := v.published[i].Unit, uint64(0), ""
		for _, name := range v.partsOf(d) {
			if !slices.Contains(names[unit], name) {
				names[unit] = append(names[unit], name)
			}
			parts |= 1 << slices.Index(names[unit], name)
		}
		if parts == 0 {
			continue
		}
		if key = fmt.Sprint(unit, parts); taken[key] == 0 {
			taken[key] = int32(i + 1)
			v.takes[i+1] = parts
		}
		v.published[i].Place = taken[key]
	}
	return v
}

// partsOf returns the counters that a device draws and that every device draws whole or not at all.
func (v *valuer) partsOf(d device) (names []string) {
	if !v.features.PartitionableDevices {
		return nil
	}
	here, all := v.slicesOf(d)
	published := countersIn(all)
	for _, consumption := range d.ConsumesCounters {
		for name, drawn := range consumption.Counters {
			counter := published[consumption.CounterSet][name]
			partly := slices.ContainsFunc(devicesIn(here), func(other device) bool {
				return slices.ContainsFunc(other.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool {
					amount, draws := c.Counters[name]
					return draws && c.CounterSet == consumption.CounterSet && amount.Value.Sign() > 0 && amount.Value.Cmp(counter) < 0
				})
			})
			if drawn.Value.Sign() > 0 && counter.Sign() > 0 && !partly {
				names = append(names, consumption.CounterSet+"/"+name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// best examines all solutions with the alternatives of the first one.
func (v *valuer) best() (best allocator.Value, solutions int, complete bool) {
	var wishes []*wish
	v.every = func() {
		var own []*wish
		for _, c := range v.chosen {
			own = append(own, c.wish)
		}
		own = slices.Compact(own)
		if wishes == nil {
			wishes = own
		}
		if !slices.Equal(own, wishes) {
			return
		}
		solutions++
		if value := v.value(); solutions == 1 || value.Compare(best) < 0 {
			best = value
		}
	}
	_, err := v.solve()
	return best, solutions, solutions > 0 && (err == nil || errors.Is(err, structured.ErrFailedAllocationOnNode))
}

// value returns the value of the chosen devices.
func (v *valuer) value() allocator.Value {
	chosen := v.chosen
	left := allocator.Resources{MilliCPU: 3000, Memory: 1448}
	for _, c := range chosen {
		left.MilliCPU -= takenBy(c.device, v1.ResourceCPU).MilliValue()
		left.Memory -= takenBy(c.device, v1.ResourceMemory).Value()
	}
	after := v.room(chosen, allocator.Resources{MilliCPU: max(left.MilliCPU, 0), Memory: max(left.Memory, 0)})
	before := v.room(nil, allocator.Resources{MilliCPU: 4000, Memory: 2048})
	var value allocator.Value
	weight := 1.0
	for level, name := range v.objective.Closeness {
		apart, broken := v.apart(chosen, name), v.broken(before, after, name)
		value.Apart |= uint64(apart) << (16 * (3 - level))
		value.Broken += weight * float64(broken)
		weight /= 1 << 16
	}
	for _, c := range chosen {
		if len(c.BindingConditions) > 0 {
			value.NotReady++
		}
		if v.failed != nil {
			value.Failed += v.failed(inventory.PoolID{Driver: c.id().Driver.String(), Name: c.id().Pool.String()}, c.id().Device.String())
		}
	}
	value.Cost = v.cost(before.state, after.state, value.Broken)
	return value
}

// takenBy is what a device made by takingOfNode takes of a resource.
func takenBy(d device, name v1.ResourceName) *resource.Quantity {
	sum := resource.Quantity{}
	takes := d.NodeAllocatableResources[name]
	if takes.Mapping != nil {
		sum.Add(*takes.Mapping.DeviceMultiplier)
	}
	if takes.Overhead != nil {
		sum.Add(*takes.Overhead.PerPod)
	}
	return &sum
}

func (v *valuer) cost(before, after *placement.State, broken float64) float64 {
	worth := func(s *placement.State) placement.Value {
		if v.objective.Strategy == allocator.Spread {
			return placement.Value{Left: used(s)}
		}
		if v.objective.Demand == nil {
			return placement.Published().Assess(s, nil)
		}
		return v.objective.Demand.Assess(s, nil)
	}
	cost := placement.Cost(worth(before), worth(after))
	if v.objective.Strategy == allocator.LeastFragmentation {
		cost += broken / 128
	}
	return math.Round(cost/placement.Epsilon) * placement.Epsilon
}

// used returns the used fraction, plus a part for concentrated use.
func used(s *placement.State) float64 {
	size, used, together := 0.0, 0.0, 0.0
	for _, d := range s.Devices {
		if d.Size > 0 {
			size, used = size+d.Size, used+d.Size-d.Free
			together += (d.Size - d.Free) * (d.Size - d.Free) / d.Size
		}
	}
	if size == 0 {
		return 0
	}
	return used/size + together/size/1024
}

// shares reports whether two devices have a value in common.
func (v *valuer) shares(a, b device, name resourceapi.FullyQualifiedName) bool {
	x, y := attributeOf(a, name), attributeOf(b, name)
	return x != nil && y != nil && len(intersect(valuesOf(*x, v.features.ListTypeAttributes), valuesOf(*y, v.features.ListTypeAttributes))) > 0
}

func (v *valuer) apart(chosen []choice, name resourceapi.FullyQualifiedName) (pairs int) {
	for i, a := range chosen {
		for _, b := range chosen[:i] {
			if !a.wish.admin && !b.wish.admin && !v.shares(a.device, b.device, name) {
				pairs++
			}
		}
	}
	return pairs
}

// knownRoom is the free part of the node, and by device whether it is wholly free.
type knownRoom struct {
	state *placement.State
	whole []bool
}

// broken compares, for each value, the numbers of wholly free units with it.
func (v *valuer) broken(before, after knownRoom, name resourceapi.FullyQualifiedName) (lost int) {
	things := func(room knownRoom, value string) (all, free int) {
		with, busy := make(map[int32]bool), make(map[int32]bool)
		for i, d := range v.devices {
			if room.state.Devices[i].Size == 0 {
				continue
			}
			unit := room.state.Devices[i].Unit
			busy[unit] = busy[unit] || !room.whole[i]
			if attribute := attributeOf(d, name); attribute != nil && slices.Contains(valuesOf(*attribute, v.features.ListTypeAttributes), value) {
				with[unit] = true
			}
		}
		for unit := range with {
			all++
			if !busy[unit] {
				free++
			}
		}
		return all, free
	}
	values := make(map[string]bool)
	for i, d := range v.devices {
		if attribute := attributeOf(d, name); attribute != nil && before.state.Devices[i].Size > 0 {
			for _, value := range valuesOf(*attribute, v.features.ListTypeAttributes) {
				values[value] = true
			}
		}
	}
	for value := range values {
		all, was := things(before, value)
		_, is := things(after, value)
		if all > 1 {
			lost += was*was - is*is
		}
	}
	return lost
}

// room returns the free part of the node after some devices are chosen.
func (v *valuer) room(chosen []choice, free allocator.Resources) knownRoom {
	room := knownRoom{&placement.State{MilliCPU: free.MilliCPU, Memory: free.Memory}, make([]bool, len(v.devices))}
	for i, d := range v.devices {
		known := v.published[i]
		known.Free, room.whole[i] = v.free(d, known.Size, chosen)
		room.state.Devices = append(room.state.Devices, known)
	}
	room.state.Takes = v.takes
	room.state.Holders = make([]int32, len(v.devices)) // By unit, which are positions here.
	for i, d := range v.devices {
		mine := func(c choice) bool { return !c.wish.admin && c.id() == d.id() }
		if v.inUse(d) || slices.ContainsFunc(chosen, mine) {
			room.state.Holders[v.published[i].Unit]++
		}
	}
	return room
}

func (v *valuer) kinds(d device) (kinds uint64) {
	if v.objective.Demand == nil {
		return 1
	}
	for i, kind := range v.objective.Demand.Kinds {
		if kind == placement.AnyDevice {
			kinds |= 1 << i
			continue
		}
		selectors := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: kind}}}
		if matches, err := matchesAll(v.ctx, v.celCache, d, selectors); err == nil && matches {
			kinds |= 1 << i
		}
	}
	return kinds
}

// unit is the position of the first device that shares counter sets with this one, directly or through others.
func (v *valuer) unit(index int) int32 {
	together := map[int]bool{index: true}
	for range v.devices {
		for i := range together {
			for j, other := range v.devices {
				if v.features.PartitionableDevices && other.pool() == v.devices[index].pool() && drawTogether(v.devices[i], other) {
					together[j] = true
				}
			}
		}
	}
	return int32(slices.Min(slices.Collect(maps.Keys(together))))
}

func drawTogether(a, b device) bool {
	return slices.ContainsFunc(a.ConsumesCounters, func(x resourceapi.DeviceCounterConsumption) bool {
		return slices.ContainsFunc(b.ConsumesCounters, func(y resourceapi.DeviceCounterConsumption) bool { return x.CounterSet == y.CounterSet })
	})
}

func (v *valuer) slicesOf(d device) (here, all []*resourceapi.ResourceSlice) {
	pool := v.pools[slices.IndexFunc(v.pools, func(p oraclePool) bool { return p.key == d.pool() })]
	return pool.here, slices.Concat(pool.here, pool.elsewhere)
}

// size is 0 for devices that the node cannot use.
func (v *valuer) size(d device) float64 {
	switch {
	case !reaches(v.node, d), len(d.BindingConditions) > 0 && !v.features.DeviceBindingAndStatus,
		len(d.slice.Spec.SkipNodeOperations) > 0 && !v.canSkipOperations(), len(d.ConsumesCounters) > 0 && !v.features.PartitionableDevices:
		return 0
	case len(d.ConsumesCounters) == 0:
		return 1
	}
	here, all := v.slicesOf(d)
	largest, whole, counters := 0.0, 0, 0
	for set, published := range countersIn(all) {
		for name, counter := range published {
			counters++
			own, partly := 0.0, false
			for _, other := range devicesIn(here) {
				for _, consumption := range other.ConsumesCounters {
					if drawn, draws := consumption.Counters[name]; draws && consumption.CounterSet == set {
						partly = partly || drawn.Value.Cmp(counter) < 0
						if other.id() == d.id() {
							own = drawn.Value.AsApproximateFloat64()
						}
					}
				}
			}
			switch {
			case own > 0 && partly:
				largest = max(largest, own/counter.AsApproximateFloat64())
			case own > 0:
				whole++
			}
		}
	}
	if largest == 0 {
		largest = float64(whole) / float64(counters)
	}
	return min(largest, 1)
}

func (v *valuer) free(d device, size float64, chosen []choice) (free float64, whole bool) {
	mine := func(c choice) bool { return !c.wish.admin && c.id() == d.id() }
	had := slices.ContainsFunc(chosen, mine)
	switch {
	case size == 0, v.state.AllocatedDevices.Has(d.id()), !v.features.ConsumableCapacity && v.inUse(d), had && !v.isShared(d):
		return 0, false
	case !had && !v.hasShares(d):
		if len(d.ConsumesCounters) == 0 || v.couldDraw(d, chosen) {
			return size, true
		}
		return 0, false
	}
	left := 1.0
	for name, capacity := range d.Capacity {
		sum := resource.Quantity{}
		if used := v.scenario.state.AggregatedCapacity[d.id()][name]; used != nil {
			sum.Add(*used)
		}
		for _, c := range chosen {
			if mine(c) {
				consumed, _, _ := v.consumed(c.wish.Capacity, d)
				sum.Add(consumed[name])
			}
		}
		if capacity.Value.Sign() > 0 {
			left = min(left, 1-sum.AsApproximateFloat64()/capacity.Value.AsApproximateFloat64())
		}
	}
	return size * max(left, 0), false
}

// couldDraw reports whether the counters suffice for a device without holder.
func (v *valuer) couldDraw(d device, chosen []choice) bool {
	_, all := v.slicesOf(d)
	var users []device
	for _, other := range devicesIn(all) {
		if v.inUse(other) {
			users = append(users, other)
		}
	}
	for i, c := range chosen {
		further := v.hasShares(c.device) || slices.ContainsFunc(chosen[:i], func(before choice) bool { return before.id() == c.id() })
		if c.pool() == d.pool() && !c.wish.admin && !further {
			users = append(users, c.device)
		}
	}
	return countersIn(all).draw(append(slices.Clone(users), d)...) && (!v.features.CompatibilityGroups || compatible(users, d))
}
