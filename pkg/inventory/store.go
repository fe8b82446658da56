package inventory

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Store keeps the current version of every pool and the index from nodes to
// pools. Writers are serialised by a mutex; readers only load pointers.
//
// The Refresh methods take a function that reads the source of truth (an informer's store) and call
// it under the writers' lock. Each call therefore applies a state at least as new as that of any
// earlier call: calls may come from several goroutines, late and repeatedly.
type Store struct {
	opts Options

	mutex   sync.Mutex
	slices  map[string]*Slice
	members map[PoolID]*members
	rules   taintRules
	// contents holds the Content of each of slices.
	contents contents

	pools sync.Map // PoolKey to *Pool
	nodes nodeIndex
	// shared is replaced when a pool changes that is not for one node alone.
	shared atomic.Pointer[sharedViews]

	// Changed records changes for nodes that have slices for themselves.
	Changed Changes[Change]

	// SharedChanged records changes of pools that are not for one node alone.
	SharedChanged Changes[PoolID]

	// Published, if set, is called with each change of a pool: the version before and the one
	// after, nil if there is none. It is called under the writers' lock and must be quick, so it
	// must not read the devices of a version. It must be set before use.
	Published func(before, after *Pool)

	// Superseded, if set, is called with each slice of the newest generation that is changed or
	// deleted, or that becomes old because the first slice of a newer generation arrives. by is the
	// slice of the same name and pool that replaces it, or nil. Superseded is also called with
	// slices of older generations, possibly once more, when they are changed or deleted. It is not
	// called for pools without devices that consume counters. It is called under the writers' lock,
	// before readers can see the pool without the slice, and must be set before use.
	Superseded func(slice, by *Slice)
}

// Change names a pool or a node that changed. If it is a pool, all nodes that it has slices for
// (NodesOf) may see a difference. If it is a node, the node had a slice and may see a difference.
type Change struct {
	Pool PoolID // zero if Node is set
	Node string
}

// NewStore returns an empty store.
func NewStore(opts Options) *Store {
	s := &Store{
		opts:    opts,
		slices:  make(map[string]*Slice),
		members: make(map[PoolID]*members),
		nodes:   newNodeIndex(),
		rules:   newTaintRules(),

		contents: newContents(),
	}
	s.shared.Store(new(sharedViews))
	return s
}

// FromSlices returns a store that holds the given slices. They must already include the taints of
// DeviceTaintRules.
func FromSlices(published []*resourceapi.ResourceSlice, opts Options) *Store {
	s := NewStore(opts)
	for _, slice := range published {
		s.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	}
	return s
}

// RefreshSlice brings one slice up to date. read returns its current version, or
// nil if it does not exist.
func (s *Store) RefreshSlice(name string, read func() *resourceapi.ResourceSlice) {
	s.mutex.Lock()
	defer s.mutex.Unlock()

	published := read()
	old := s.slices[name]
	switch {
	case published == nil && old == nil:
		return
	case published != nil && old != nil && old.ResourceSlice == published:
		return
	}
	s.replace(old, published)
}

// replace publishes a change of one slice. Readers may see the pool before and after, but never a
// node without a pool that it has both before and after.
func (s *Store) replace(old *Slice, published *resourceapi.ResourceSlice) {
	var added *Slice
	if published != nil {
		var before *Content
		if old != nil {
			before = old.Content
		}
		added = NewSlice(published, s.contents.take(published, before))
		added.draws = added.drawsCounters()
		s.nodes.add(added.localTo(), added.poolID())
	}
	moved := old != nil && (added == nil || added.poolID() != old.poolID())
	if s.Superseded != nil {
		s.supersede(old, added)
	}
	if moved {
		s.forget(old)
	}
	if added != nil {
		s.remember(added)
		s.publish(added.poolID())
	}
	if moved {
		s.publish(old.poolID())
	}
	if old != nil {
		s.contents.release(old.Content) // Release last, because the new version may have the same content.
		node := old.localTo()
		s.nodes.remove(node, old.poolID())
		switch {
		case node == "":
			s.shared.Store(new(sharedViews))
		case moved || added.localTo() != node:
			s.Changed.Add(Change{Node: node})
		}
	}
}

// supersede calls Superseded before a slice replaces another; either may be nil.
func (s *Store) supersede(old, added *Slice) {
	var by *Slice // replaces old
	if old != nil && added != nil && added.poolID() == old.poolID() && added.generation() >= old.generation() {
		by = added
	}
	if added != nil {
		members := s.members[added.poolID()]
		if all := members.tally(); all.drawing > 0 && added.generation() > all.generation {
			for _, slice := range members.appendTo(nil) {
				switch {
				case slice.generation() < all.generation:
				case slice == old:
					s.Superseded(slice, by)
				default:
					s.Superseded(slice, nil)
				}
			}
			if by != nil && old.generation() >= all.generation {
				return
			}
		}
	}
	// Leftovers of older generations count as well: a process that started while its driver updated
	// the pool has no newer record of what devices consume.
	if old != nil && (old.draws || s.members[old.poolID()].tally().drawing > 0) {
		s.Superseded(old, by)
	}
}

// RefreshTaintRule brings one DeviceTaintRule up to date. read returns its current version, or nil
// if it does not exist. Changes outside its spec, for example of its status, have no effect.
func (s *Store) RefreshTaintRule(name string, read func() *resourceapi.DeviceTaintRule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()

	rule, known := read(), s.rules.byName[name]
	if rule == nil && known == nil || rule != nil && known != nil && apiequality.Semantic.DeepEqual(&rule.Spec, &known.Spec) {
		return
	}
	s.rules.replace(name, rule)
	for _, id := range s.inScope(known, rule) {
		s.publish(id)
	}
}

// inScope returns the pools that any of the given rules may apply to.
func (s *Store) inScope(rules ...*resourceapi.DeviceTaintRule) (ids []PoolID) {
	for _, rule := range rules {
		scope, found := scopeOf(rule)
		switch {
		case !found:
		case scope.anyDriver || scope.anyPool:
			for id := range s.members {
				if scope.includes(id) {
					ids = append(ids, id)
				}
			}
		case s.members[scope.PoolID] != nil:
			ids = append(ids, scope.PoolID)
		}
	}
	slices.SortFunc(ids, PoolID.Compare)
	return slices.Compact(ids)
}

// Pool returns the current version of a pool, or nil if it has no slices.
func (s *Store) Pool(id PoolID) *Pool { return s.pool(unique.Make(id)) }

// All yields the current versions of all pools. The order is undefined.
func (s *Store) All() iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		s.pools.Range(func(_, pool any) bool { return yield(pool.(*Pool)) })
	}
}

func (s *Store) pool(key PoolKey) *Pool {
	pool, found := s.pools.Load(key)
	if !found {
		return nil
	}
	return pool.(*Pool)
}

func (s *Store) remember(slice *Slice) {
	s.slices[slice.Name] = slice
	id := slice.poolID()
	s.members[id] = s.members[id].with(slice)
}

func (s *Store) forget(slice *Slice) {
	delete(s.slices, slice.Name)
	id := slice.poolID()
	if s.members[id] = s.members[id].without(slice.Name); s.members[id] == nil {
		delete(s.members, id)
	}
}

// publish makes a new version of a pool, which its first reader builds.
func (s *Store) publish(id PoolID) {
	var after *Pool
	before, key := s.Pool(id), unique.Make(id)
	if members := s.members[id]; members == nil {
		s.pools.Delete(key)
	} else {
		after = newPool(id, members, s.rules.of(id), s.opts)
		s.pools.Store(key, after)
	}
	if s.nodes.sharedCounts[id] > 0 {
		s.shared.Store(new(sharedViews)) // After the pool: views cached from now on are of the new version.
		s.SharedChanged.Add(id)
	}
	if s.Published != nil {
		s.Published(before, after)
	}
	if s.members[id].tally().local > 0 {
		s.Changed.Add(Change{Pool: id})
	}
}

// SharedPools returns the pools with a slice that, taken by itself, is not for one node alone.
func (s *Store) SharedPools() []PoolID {
	keys := *s.nodes.shared.Load()
	ids := make([]PoolID, len(keys))
	for i, key := range keys {
		ids[i] = key.Value()
	}
	return ids
}

// NodesOf returns the names of the nodes that slices of the pool are for alone. A name may occur
// more than once.
func (s *Store) NodesOf(id PoolID) []string {
	pool := s.Pool(id)
	if pool == nil {
		return nil
	}
	nodes := make([]string, 0, pool.members.tally().local)
	for _, slice := range pool.built().slices {
		if node := slice.localTo(); node != "" && (len(nodes) == 0 || nodes[len(nodes)-1] != node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// IsLocal reports whether a node has pools with slices for it alone.
func (s *Store) IsLocal(node string) bool {
	_, found := s.nodes.local.Load(node)
	return found
}

// LocalNodes yields the names of all nodes that have pools with slices for them alone.
func (s *Store) LocalNodes() func(func(string) bool) {
	return func(yield func(string) bool) {
		s.nodes.local.Range(func(node, _ any) bool { return yield(node.(string)) })
	}
}
