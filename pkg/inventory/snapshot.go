package inventory

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Snapshot is a list of slices that does not change, and shows nodes what a Store with
// these slices would. It is for those who ask about a few nodes: slices are looked at
// when a node asks for them, and what is found out is kept with them (see Known).
//
// Slices need not have names, or names of their own. Slices of a pool with the same name
// are tried in the order of the list, those that are for one node alone before others.
type Snapshot struct {
	known *Known
	list  []*resourceapi.ResourceSlice
	// byNode and byPool are made when they are needed first.
	byNode func() *nodeChains
	byPool func() *chains
	// whole are the pools of which slices for other nodes matter, by PoolID.
	whole sync.Map
}

// NewSnapshot returns a snapshot of published slices. Taints of taint rules must already
// be part of them.
func (k *Known) NewSnapshot(published []*resourceapi.ResourceSlice) *Snapshot {
	s := &Snapshot{known: k, list: slices.Clone(published)}
	s.byNode, s.byPool = sync.OnceValue(s.chainNodes), sync.OnceValue(s.chainPools)
	return s
}

// nodeChains has the slices of a snapshot by node.
type nodeChains struct {
	local *chains
	// parts has what was asked for before, by the first position of a node.
	parts []atomic.Pointer[[]*nodePart]
	// shared are the parts of pools that are not for one node alone.
	shared []*nodePart
}

// nodePart is what a node, as far as is known without looking at its labels, may see of a
// pool: the slices that are for it alone, and those that are for more than one node.
type nodePart struct {
	id      PoolID
	members []*knownSlice
	pool    atomic.Pointer[Pool]
}

// soleSlice is the memory of what a node with one slice asks for.
type soleSlice struct {
	parts   []*nodePart
	pointer [1]*nodePart
	part    nodePart
	member  [1]*knownSlice
}

// OnNode returns the pools that the node sees, like Store.OnNode.
func (s *Snapshot) OnNode(node *v1.Node) []*NodePool {
	index := s.byNode()
	local, shared := s.partsOf(index, node.Name), index.shared
	result := make([]*NodePool, 0, len(local)+len(shared))
	var withConditions []*NodePool
	for len(local)+len(shared) > 0 {
		var next *nodePart
		next, local, shared = nextPart(local, shared)
		switch view := s.view(next, node); {
		case view == nil:
		case view.BindingConditions:
			withConditions = append(withConditions, view)
		default:
			result = append(result, view)
		}
	}
	return append(result, withConditions...)
}

// nextPart returns the first part of two sorted lists and what is left of them. Of the
// same pool, the local part has everything.
func nextPart(local, shared []*nodePart) (next *nodePart, localRest, sharedRest []*nodePart) {
	order := cmp.Compare(len(shared), len(local)) // If either is empty, it is the other's turn.
	if len(local) > 0 && len(shared) > 0 {
		order = local[0].id.Compare(shared[0].id)
	}
	switch {
	case order < 0:
		return local[0], local[1:], shared
	case order > 0:
		return shared[0], local, shared[1:]
	}
	return local[0], local[1:], shared[1:]
}

// view returns what a node sees of a pool. What other nodes see of it is only looked at
// if the node does not see a whole generation.
func (s *Snapshot) view(p *nodePart, node *v1.Node) *NodePool {
	if !s.known.opts.seesWhole(p.members, node) {
		return s.wholePool(p.id).OnNode(node)
	}
	pool := p.pool.Load()
	if pool == nil {
		pool = s.known.pool(p.members)
		p.pool.Store(pool)
	}
	return pool.OnNode(node)
}

// seesWhole reports whether a node sees a whole generation of a pool, or nothing of it.
func (o Options) seesWhole(members []*knownSlice, node *v1.Node) bool {
	var first *Slice // of the newest generation
	var count int64
	for _, member := range members {
		slice := member.Slice
		switch {
		case o.ignores(slice) || !slice.reaches(node) || first != nil && slice.generation() < first.generation():
		case first == nil || slice.generation() > first.generation():
			first, count = slice, 1
		default:
			count++
		}
	}
	return first == nil || count == first.Spec.Pool.ResourceSliceCount
}

// partsOf returns the parts of the pools that have slices for a node alone.
func (s *Snapshot) partsOf(index *nodeChains, node string) []*nodePart {
	if node == "" {
		return nil
	}
	first := index.local.first(hashString(node), func(i int) bool { return *s.list[i].Spec.NodeName == node })
	if first < 0 {
		return nil
	}
	if known := index.parts[first].Load(); known != nil {
		return *known
	}
	parts := s.localParts(index.local, first)
	for _, p := range *parts {
		if i, found := slices.BinarySearchFunc(index.shared, p.id, func(p *nodePart, id PoolID) int { return p.id.Compare(id) }); found {
			p.members = append(p.members, index.shared[i].members...)
		}
	}
	index.parts[first].Store(parts)
	return *parts
}

// localParts returns the parts that slices from a position on make up, without those that
// are for more than one node.
func (s *Snapshot) localParts(c *chains, first int) *[]*nodePart {
	if c.next[first] >= 0 {
		parts := byPool(s.members(c, first))
		return &parts
	}
	m := new(soleSlice)
	m.member[0] = s.known.slice(s.list[first])
	m.part.id, m.part.members = m.member[0].poolID(), m.member[:]
	m.pointer[0] = &m.part
	m.parts = m.pointer[:]
	return &m.parts
}

// members returns the slices from a position on that have the same key.
func (s *Snapshot) members(c *chains, first int) []*knownSlice {
	count := 0
	for i := first; i >= 0; i = int(c.next[i]) {
		count++
	}
	members := make([]*knownSlice, 0, count)
	for i := first; i >= 0; i = int(c.next[i]) {
		members = append(members, s.known.slice(s.list[i]))
	}
	return members
}

// byPool sorts slices by pool. Within a pool they keep their order.
func byPool(members []*knownSlice) []*nodePart {
	slices.SortStableFunc(members, func(a, b *knownSlice) int { return a.poolID().Compare(b.poolID()) })
	var parts []*nodePart
	for start, end := 0, 0; start < len(members); start = end {
		id := members[start].poolID()
		for end < len(members) && members[end].poolID() == id {
			end++
		}
		parts = append(parts, &nodePart{id: id, members: members[start:end:end]})
	}
	return parts
}

// wholePool returns a pool with the slices for all nodes.
func (s *Snapshot) wholePool(id PoolID) *Pool {
	if pool, found := s.whole.Load(id); found {
		return pool.(*Pool)
	}
	index := s.byPool()
	members := s.members(index, index.first(hashPool(id), func(i int) bool { return idOf(s.list[i]) == id }))
	slices.SortStableFunc(members, func(a, b *knownSlice) int { return cmp.Compare(sharedRank(a), sharedRank(b)) })
	pool, _ := s.whole.LoadOrStore(id, s.known.pool(members))
	return pool.(*Pool)
}

// sharedRank puts slices for one node alone before others.
func sharedRank(slice *knownSlice) int {
	if nodeOf(slice.ResourceSlice) == "" {
		return 1
	}
	return 0
}

// chainNodes goes through the list once.
func (s *Snapshot) chainNodes() *nodeChains {
	index := &nodeChains{local: newChains(len(s.list)), parts: make([]atomic.Pointer[[]*nodePart], len(s.list))}
	var shared []*knownSlice
	for i := len(s.list) - 1; i >= 0; i-- {
		node := nodeOf(s.list[i])
		if node == "" {
			shared = append(shared, s.known.slice(s.list[i]))
			continue
		}
		index.local.addFirst(i, hashString(node), func(j int) bool { return *s.list[j].Spec.NodeName == node })
	}
	slices.Reverse(shared)
	index.shared = byPool(shared)
	return index
}

func (s *Snapshot) chainPools() *chains {
	index := newChains(len(s.list))
	for i := len(s.list) - 1; i >= 0; i-- {
		id := idOf(s.list[i])
		index.addFirst(i, hashPool(id), func(j int) bool { return idOf(s.list[j]) == id })
	}
	return index
}

func nodeOf(slice *resourceapi.ResourceSlice) string { return ptr.Deref(slice.Spec.NodeName, "") }

func idOf(slice *resourceapi.ResourceSlice) PoolID {
	return PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

func hashString(text string) uint64 { return maphash.String(fingerprintSeed, text) }

func hashPool(id PoolID) uint64 { return mix(hashString(id.Driver), hashString(id.Name)) }
