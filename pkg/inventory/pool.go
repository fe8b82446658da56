package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"unique"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// PoolID names a pool. Pool names are only unique within a driver.
type PoolID struct {
	Driver, Name string
}

// PoolKey stands for a PoolID. It is compared and hashed like a pointer.
type PoolKey = unique.Handle[PoolID]

// KeyOf returns the key of a pool.
func KeyOf(id PoolID) PoolKey { return unique.Make(id) }

func (id PoolID) String() string { return id.Driver + "/" + id.Name }

// Compare orders pools by driver, then by name: the order in which devices are
// tried, so that drivers can express preference by naming.
func (id PoolID) Compare(other PoolID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), cmp.Compare(id.Name, other.Name))
}

// AnyCount as resourceSliceCount of a pool says that nobody knows how many slices there
// are: what there is is complete. v1 does not permit it; versions without that field need
// it, for pools that are local to a node.
const AnyCount = -1

// Options say which optional parts of the API are understood. A slice that uses
// a part that is not is left out.
type Options struct {
	// PartitionableDevices: shared counters and per-device node selection (KEP-4815).
	PartitionableDevices bool
	// CompatibilityGroups between devices that draw from one counter set.
	CompatibilityGroups bool
}

// Pool is one version of a pool: all its known slices, of every generation, and
// the taint rules that apply to it. It is immutable.
type Pool struct {
	ID PoolID

	key    PoolKey
	opts   Options
	slices []*Slice                       // sorted by name
	rules  []*resourceapi.DeviceTaintRule // sorted by name

	// uniform is true for the most common kind of pool, which looks the same to every
	// node that sees it: one slice without per-device node selection.
	uniform bool
	// sole caches the view of a pool that looks the same to every node that
	// sees it. Other pools cache a view for each set of reachable slices and devices.
	sole  atomic.Pointer[NodePool]
	views Cache
}

// Key stands for the pool's ID.
func (p *Pool) Key() PoolKey { return p.key }

// IsPublished reports whether the driver has published as many slices of the newest
// generation as it wanted to. Whether these can be used, Everywhere knows.
func (p *Pool) IsPublished() bool {
	targeting := ofGeneration(p.slices, newest(p.slices))
	want := targeting[0].Spec.Pool.ResourceSliceCount
	return want == AnyCount || int64(len(targeting)) == want
}

func newPool(id PoolID, members map[string]*Slice, rules []*resourceapi.DeviceTaintRule, opts Options) *Pool {
	p := &Pool{ID: id, key: unique.Make(id), opts: opts}
	for _, slice := range members {
		p.slices = append(p.slices, slice)
	}
	slices.SortFunc(p.slices, func(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) })
	for _, rule := range rules {
		if ruleMatchesPool(rule, id) {
			p.rules = append(p.rules, rule)
		}
	}
	p.uniform = len(p.slices) == 1 && len(p.slices[0].deviceReach) == 0 && !p.ignores(p.slices[0])
	return p
}

// OnNode returns what the node sees of the pool, or nil if it sees nothing: no
// slice is for this node, or those that are belong to a generation that the
// driver is about to replace by one without devices for this node.
func (p *Pool) OnNode(node *v1.Node) *NodePool {
	if p.uniform {
		if !p.slices[0].reaches(node) {
			return nil
		}
		if view := p.sole.Load(); view != nil {
			return view
		}
		p.sole.CompareAndSwap(nil, p.build(p.slices, node))
		return p.sole.Load()
	}
	return p.cachedView(node)
}

// Everywhere returns the newest generation of the pool regardless of nodes: all
// its devices, wherever they are. It answers what a pool could offer at all, so
// unlike a node's view it has devices also if the pool is not complete: those that
// are known so far.
func (p *Pool) Everywhere() *NodePool {
	const key = "everywhere"
	if view, found := p.views.Get(key); found {
		return view.(*NodePool)
	}
	var known []*Slice
	for _, slice := range p.slices {
		if !p.ignores(slice) {
			known = append(known, slice)
		}
	}
	view := p.unusable(Incomplete, "no slice can be used with the features that are on")
	if len(known) > 0 {
		if built := p.build(known, nil); built != nil {
			view = built
		}
		if view.State != Complete {
			view.addDevices(p, ofGeneration(known, newest(known)), nil)
		}
	}
	return p.views.Put(key, view).(*NodePool)
}

func (p *Pool) cachedView(node *v1.Node) *NodePool {
	var reachable []*Slice
	key := make([]byte, 0, 64)
	for _, slice := range p.slices {
		if p.ignores(slice) || !slice.reaches(node) {
			key = append(key, '0')
			continue
		}
		key = append(key, '1')
		for _, device := range slice.deviceReach {
			if device.matches(node) {
				key = append(key, '+')
			} else {
				key = append(key, '-')
			}
		}
		reachable = append(reachable, slice)
	}
	if len(reachable) == 0 {
		return nil
	}
	if view, found := p.views.Get(string(key)); found {
		return view.(*NodePool)
	}
	return p.views.Put(string(key), p.build(reachable, node)).(*NodePool)
}

// ignores reports whether the slice uses a part of the API that is switched off.
func (p *Pool) ignores(slice *Slice) bool {
	if !p.opts.PartitionableDevices &&
		(slice.Spec.PerDeviceNodeSelection != nil || len(slice.Spec.SharedCounters) > 0) {
		return true
	}
	return !p.opts.CompatibilityGroups && slice.usesCompatibilityGroups()
}

// build makes the view for a node that reaches the given slices (at least one).
//
// The generation is the newest among the reachable slices. If these are not the
// whole pool, then the slices for other nodes decide: a newer generation there
// makes what we have obsolete, a missing slice makes the pool incomplete. Without
// a node, all slices count as reachable.
func (p *Pool) build(reachable []*Slice, node *v1.Node) *NodePool {
	generation := newest(reachable)
	targeting := ofGeneration(reachable, generation)
	want := targeting[0].Spec.Pool.ResourceSliceCount

	var others []*Slice
	if want != AnyCount && int64(len(targeting)) != want {
		found, groups := 0, false
		for _, slice := range p.slices {
			switch {
			case slice.generation() > generation:
				return nil
			case slice.generation() < generation:
				continue
			case !p.opts.CompatibilityGroups && slice.usesCompatibilityGroups():
				groups = true
				continue
			}
			found++
			if !slices.Contains(targeting, slice) {
				others = append(others, slice)
			}
		}
		if int64(found) != want {
			verb := "are"
			if found == 1 {
				verb = "is"
			}
			view := p.unusable(Incomplete, fmt.Sprintf(
				"%d of %d slices of generation %d %s published", found, want, generation, verb))
			if groups {
				const gate = "DRADeviceCompatibilityGroups"
				view.Off = []string{gate}
				view.Reason += ", without those that need a feature that is off (" + gate + ")"
			}
			return view
		}
	}
	return newNodePool(p, targeting, others, node)
}

// unusable is the view of a pool without devices.
func (p *Pool) unusable(state State, reason string) *NodePool {
	return &NodePool{ID: p.ID, Key: p.key, State: state, Reason: reason, Content: new(Content)}
}

// newest returns the highest generation of the slices, of which there is at least one.
func newest(candidates []*Slice) int64 {
	return slices.MaxFunc(candidates, func(a, b *Slice) int {
		return cmp.Compare(a.generation(), b.generation())
	}).generation()
}

func ofGeneration(candidates []*Slice, generation int64) []*Slice {
	var result []*Slice
	for _, slice := range candidates {
		if slice.generation() == generation {
			result = append(result, slice)
		}
	}
	return result
}
