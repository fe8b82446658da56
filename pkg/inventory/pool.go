package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// PoolID identifies a pool. Pool names are only unique within a driver.
type PoolID struct {
	Driver, Name string
}

// PoolKey stands for a PoolID. It compares and hashes like a pointer.
type PoolKey = unique.Handle[PoolID]

// KeyOf returns the key of a pool.
func KeyOf(id PoolID) PoolKey { return unique.Make(id) }

func (id PoolID) String() string { return id.Driver + "/" + id.Name }

// Compare orders pools by driver, then by name. Devices are tried in this order, so that drivers
// can express preference by naming.
func (id PoolID) Compare(other PoolID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), cmp.Compare(id.Name, other.Name))
}

// AnyCount as resourceSliceCount of a pool means that the number of slices is unknown, and the
// existing slices count as complete. v1 does not permit it; API versions without that field need it
// for pools that are local to a node.
const AnyCount = -1

// Options says which optional parts of the API are supported. Slices that use other parts are
// ignored.
type Options struct {
	// PartitionableDevices: shared counters and per-device node selection (KEP-4815).
	PartitionableDevices bool
	// CompatibilityGroups between devices that draw from one counter set.
	CompatibilityGroups bool
}

// Pool is one version of a pool: all its known slices, of every generation, and the
// DeviceTaintRules that apply to it. It is immutable.
//
// The versions that a Store publishes have members and scoped only, which cost little even for
// large pools. The other fields are set by built: most versions of a pool that changes often are
// never read.
type Pool struct {
	ID PoolID

	key  PoolKey
	opts Options

	members *members
	scoped  scopedRules
	build   sync.Once

	slices []*Slice                       // sorted by name, unless the pool is of a Snapshot
	rules  []*resourceapi.DeviceTaintRule // rules for the pool, sorted by name

	// sorted is true if slices is sorted by name.
	sorted bool
	// uniform is true for the most common kind of pool, which looks the same to every node that
	// sees it: its slices are all for the same nodes, without node selection per device.
	uniform bool
	// sole caches the view of a uniform pool. Other pools have a view for each set of reachable
	// devices (by viewKey), and a layout for each set of reachable slices, in views.
	sole    atomic.Pointer[NodePool]
	views   Cache
	reaches atomic.Pointer[reachIndex]
}

// Key stands for the pool's ID.
func (p *Pool) Key() PoolKey { return p.key }

// Node returns the only node that the pool has slices for; "" if there may be several.
func (p *Pool) Node() string {
	if p.members != nil {
		if all := p.members.tally(); all.local < all.count {
			return ""
		}
	}
	slices := p.built().slices
	for _, slice := range slices {
		if slice.localTo() != slices[0].localTo() {
			return ""
		}
	}
	return slices[0].localTo()
}

// Generation returns the newest generation of a pool of a Store. It costs little.
func (p *Pool) Generation() int64 { return p.members.tally().generation }

// IsPublished reports whether the driver has published the announced number of slices of the newest
// generation; Everywhere says whether these can be used. It is for pools of a Store and costs
// little.
func (p *Pool) IsPublished() bool {
	all := p.members.tally()
	return all.wanted == AnyCount || int64(all.targeting) == all.wanted
}

// newPool returns a pool that is built when it is first read. Without members, the caller must set
// its slices and call look.
func newPool(id PoolID, members *members, rules scopedRules, opts Options) *Pool {
	return &Pool{ID: id, key: unique.Make(id), opts: opts, members: members, scoped: rules}
}

// built returns the pool once it has its slices and rules.
func (p *Pool) built() *Pool {
	if p.members != nil {
		p.build.Do(func() {
			p.slices = p.members.appendTo(make([]*Slice, 0, p.members.tally().count))
			p.rules = p.scoped.all()
			p.look()
		})
	}
	return p
}

// look completes a pool that has its slices. It must not write other fields: they may be read
// concurrently before the pool is built.
func (p *Pool) look() {
	p.sorted = slices.IsSortedFunc(p.slices, compareNames)
	p.uniform = p.looksTheSame()
}

// sortByName sorts slices in the order in which their devices are tried. The sort is the same as
// upstream's, which matters for slices with the same name; only a Snapshot has those.
func sortByName(list []*Slice) {
	slices.SortFunc(list, compareNames)
}

func compareNames(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) }

// looksTheSame reports whether all nodes that see anything of the pool see all of it.
func (p *Pool) looksTheSame() bool {
	for _, slice := range p.slices {
		if slice.broken != nil && len(p.slices) > 1 || len(slice.deviceReach) > 0 || p.ignores(slice) ||
			!slice.reach.equal(p.slices[0].reach) {
			return false
		}
	}
	return true
}

// OnNode returns the node's view of the pool, or nil if it sees nothing: no slice is for this node,
// or those that are belong to a generation that the driver is about to replace by one without
// devices for this node.
func (p *Pool) OnNode(node *v1.Node) *NodePool {
	if p.built(); p.uniform {
		if !p.slices[0].reaches(node) {
			return nil
		}
		return p.soleView()
	}
	return p.cachedView(node)
}

// soleView returns the view that all nodes of a uniform pool share.
func (p *Pool) soleView() *NodePool {
	if view := p.sole.Load(); view != nil {
		return view
	}
	p.sole.CompareAndSwap(nil, p.view(p.slices, nil))
	return p.sole.Load()
}

// everywhereKey is the cache key of Everywhere.
type everywhereKey struct{}

// Everywhere returns the newest generation of the pool with its devices for all nodes. Unlike
// a node's view, it has devices even if the pool is not complete, those known so far: this is all that the pool
// could offer.
func (p *Pool) Everywhere() *NodePool {
	if p.built(); p.uniform && p.soleView().State == Complete {
		return p.soleView()
	}
	if view, found := p.views.Get(everywhereKey{}); found {
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
		if built := p.view(known, nil); built != nil {
			view = built
		}
		if view.State != Complete {
			view.Layout = newLayout(p, ofGeneration(known, newest(known)))
			view.Reachable = view.reachable(nil)
		}
	}
	return p.views.Put(everywhereKey{}, view).(*NodePool)
}

// Later returns a function that computes Everywhere, for callers that may need it later or never.
// Until then it keeps nothing else of the version in memory, above all no views of nodes.
func (p *Pool) Later() func() *NodePool {
	if view, found := p.views.Get(everywhereKey{}); found {
		return func() *NodePool { return view.(*NodePool) }
	}
	return sync.OnceValue(newPool(p.ID, p.members, p.scoped, p.opts).Everywhere)
}

// viewKey is the cache key of the view of nodes that reach the same devices.
type viewKey string

func (p *Pool) cachedView(node *v1.Node) *NodePool {
	reached, key := p.reachIndex().of(node)
	if reached.Empty() {
		return nil
	}
	if view, found := p.views.Get(viewKey(key)); found {
		return view.(*NodePool)
	}
	reachable := make([]*Slice, 0, reached.Len())
	for number := range reached.All() {
		reachable = append(reachable, p.slices[number])
	}
	return p.views.Put(viewKey(key), p.view(reachable, node)).(*NodePool)
}

// ignores reports whether the slice uses a part of the API that is disabled.
func (p *Pool) ignores(slice *Slice) bool { return p.opts.ignores(slice) }

func (o Options) ignores(slice *Slice) bool {
	if !o.PartitionableDevices &&
		(slice.Spec.PerDeviceNodeSelection != nil || len(slice.Spec.SharedCounters) > 0) {
		return true
	}
	return !o.CompatibilityGroups && slice.usesCompatibilityGroups()
}

// view makes the view of a node that reaches the given slices (at least one).
//
// The generation is the newest of the reachable slices. If these are not the whole pool, the slices
// for other nodes decide: a newer generation there makes the reachable slices obsolete, and a
// missing slice makes the pool incomplete. Without a node, all slices count as reachable.
func (p *Pool) view(reachable []*Slice, node *v1.Node) *NodePool {
	generation := newest(reachable)
	targeting := reachable
	if len(reachable) > 1 {
		targeting = ofGeneration(reachable, generation)
	}
	want := targeting[0].Spec.Pool.ResourceSliceCount
	sortByName(targeting)

	var others []*Slice
	if want != AnyCount && int64(len(targeting)) != want {
		found, compatibility := 0, false
		for _, slice := range p.slices {
			switch {
			case slice.generation() > generation:
				return nil
			case slice.generation() < generation:
				continue
			case !p.opts.CompatibilityGroups && slice.usesCompatibilityGroups():
				compatibility = true
				continue
			}
			found++
			if !hasName(targeting, slice.Name) {
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
			if compatibility {
				const gate = "DRADeviceCompatibilityGroups"
				view.Off = []string{gate}
				view.Reason += " without those that need a feature that is off (" + gate + ")"
			}
			return view
		}
	}
	return newNodePool(p, targeting, others, node)
}

// unusable returns the view of a pool without devices.
func (p *Pool) unusable(state State, reason string) *NodePool {
	return &NodePool{ID: p.ID, Key: p.key, State: state, Reason: reason, Layout: &Layout{Content: new(Content)}}
}

// newest returns the highest generation of the slices, at least one.
func newest(list []*Slice) int64 {
	return slices.MaxFunc(list, func(a, b *Slice) int {
		return cmp.Compare(a.generation(), b.generation())
	}).generation()
}

func hasName(list []*Slice, name string) bool {
	return slices.ContainsFunc(list, func(s *Slice) bool { return s.Name == name })
}

func ofGeneration(list []*Slice, generation int64) []*Slice {
	var result []*Slice
	for _, slice := range list {
		if slice.generation() == generation {
			result = append(result, slice)
		}
	}
	return result
}
