package allocator_test

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// isTaken tells whether somebody has the device who keeps the wish from having it:
// with admin access only the claim itself, otherwise anybody.
func (o *oracle) isTaken(w *wish, d device) bool {
	if w.admin {
		return slices.ContainsFunc(o.chosenFor(w.claim), func(c choice) bool { return c.id() == d.id() })
	}
	return o.state.AllocatedDevices.Has(d.id()) ||
		slices.ContainsFunc(o.chosen, func(c choice) bool { return c.id() == d.id() })
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

// judge tells whether the last choice can stand beside those before it.
func (o *oracle) judge() judgement {
	last := o.chosen[len(o.chosen)-1]
	if len(last.ConsumesCounters) > 0 && (!o.features.PartitionableDevices || o.overdrawn(last.pool())) {
		return unusable
	}
	if o.features.DeviceTaints && untolerated(last.device, last.wish.Tolerations) {
		return unusable
	}
	for _, constraint := range o.claims[last.wish.claim].Spec.Devices.Constraints {
		if !satisfies(constraint, o.concerned(last.wish.claim, constraint), o.features.ListTypeAttributes) {
			return breaksConstraint
		}
	}
	return fine
}

// concerned lists the chosen devices that a constraint is about.
func (o *oracle) concerned(claim int, constraint resourceapi.DeviceConstraint) []device {
	var list []device
	for _, c := range o.chosenFor(claim) {
		if len(constraint.Requests) == 0 || slices.Contains(constraint.Requests, c.wish.name()) ||
			c.wish.parent != "" && slices.Contains(constraint.Requests, c.wish.parent) {
			list = append(list, c.device)
		}
	}
	return list
}

// overdrawn tells whether a pool's counters do not suffice for what is allocated
// and what is chosen.
func (o *oracle) overdrawn(key poolKey) bool {
	pool := o.pools[slices.IndexFunc(o.pools, func(p oraclePool) bool { return p.key == key })]
	left := countersIn(slices.Concat(pool.here, pool.elsewhere))
	var users []device
	for _, d := range devicesIn(slices.Concat(pool.here, pool.elsewhere)) {
		if o.state.AllocatedDevices.Has(d.id()) {
			users = append(users, d)
		}
	}
	for _, c := range o.chosen {
		if c.pool() == key {
			users = append(users, c.device)
		}
	}
	return !left.draw(users...)
}

// oraclePool is what a node sees of a pool.
type oraclePool struct {
	key     poolKey
	trouble string // "incomplete", "invalid" or ""
	// here are the slices for the node, elsewhere the others of the generation.
	here, elsewhere []*resourceapi.ResourceSlice
}

// poolsOf lists the pools that the node sees, in the order in which they are tried.
func poolsOf(s scenario) []oraclePool {
	byKey := make(map[poolKey][]*resourceapi.ResourceSlice)
	for _, slice := range s.slices {
		byKey[poolOf(slice)] = append(byKey[poolOf(slice)], slice)
	}
	var pools []oraclePool
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		if pool, visible := poolFrom(s, key, all); visible {
			pools = append(pools, pool)
		}
	}
	slices.SortFunc(pools, func(a, b oraclePool) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.key.driver, b.key.driver), cmp.Compare(a.key.name, b.key.name))
	})
	return pools
}

// rank is greater for pools whose devices may have to be attached first.
func (p oraclePool) rank() int {
	for _, d := range devicesIn(p.here) {
		if p.trouble == "" && d.BindingConditions != nil {
			return 1
		}
	}
	return 0
}

func poolFrom(s scenario, key poolKey, all []*resourceapi.ResourceSlice) (oraclePool, bool) {
	pool := oraclePool{key: key}
	newest := int64(-1)
	for _, slice := range all {
		if visible(s, slice) {
			newest = max(newest, slice.Spec.Pool.Generation)
		}
	}
	newestAnywhere := int64(-1)
	for _, slice := range all {
		newestAnywhere = max(newestAnywhere, slice.Spec.Pool.Generation)
		switch {
		case slice.Spec.Pool.Generation != newest:
		case visible(s, slice):
			pool.here = append(pool.here, slice)
		default:
			pool.elsewhere = append(pool.elsewhere, slice)
		}
	}
	if newest < 0 {
		return pool, false
	}
	want := int(pool.here[0].Spec.Pool.ResourceSliceCount)
	switch {
	case len(pool.here) == want:
		pool.elsewhere = nil // Whatever it is, it is not part of the pool.
	case newestAnywhere > newest:
		return pool, false // The driver is about to replace what the node still sees.
	case len(pool.here)+len(pool.elsewhere) != want:
		pool.trouble = "incomplete"
		return pool, true
	}
	if contradicts(s, pool) {
		pool.trouble = "invalid"
	}
	return pool, true
}

// visible tells whether a slice is understood and has something for the node.
func visible(s scenario, slice *resourceapi.ResourceSlice) bool {
	perDevice := slice.Spec.PerDeviceNodeSelection
	if !s.features.PartitionableDevices && (perDevice != nil || len(slice.Spec.SharedCounters) > 0) {
		return false
	}
	if ptr.Deref(perDevice, false) {
		return slices.ContainsFunc(devicesIn([]*resourceapi.ResourceSlice{slice}), func(d device) bool { return reaches(s.node, d) })
	}
	return nodeMatches(s.node, slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector)
}

// contradicts tells whether a name is used twice or a counter is not defined.
func contradicts(s scenario, pool oraclePool) bool {
	seen := make(map[structured.DeviceID]bool)
	for _, d := range devicesIn(pool.here) {
		if seen[d.id()] {
			return true
		}
		seen[d.id()] = true
	}
	if !s.features.PartitionableDevices {
		return false
	}
	all := slices.Concat(pool.here, pool.elsewhere)
	published := countersIn(all)
	for _, d := range devicesIn(all) {
		for _, consumption := range d.ConsumesCounters {
			for name := range consumption.Counters {
				if _, found := published[consumption.CounterSet][name]; !found {
					return true
				}
			}
		}
	}
	return false
}
