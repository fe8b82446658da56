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

// Snapshot is a fixed list of slices, and gives nodes the same views as a Store with these slices.
// It suits questions about few nodes: slices are read when a node needs them, and the results are
// kept with them (see Known).
//
// Slices may have no names or equal names. Slices of a pool with the same name are tried in the
// order of the list, with those for one node alone first.
type Snapshot struct {
	known *Known
	list  []*resourceapi.ResourceSlice
	// byNode and byPool are built on first use.
	byNode func() *nodeChains
	byPool func() *chains
	// whole caches, by PoolID, the pools for which slices for other nodes matter.
	whole sync.Map
}

// NewSnapshot returns a snapshot of published slices. They must already include the taints of
// DeviceTaintRules.
func (k *Known) NewSnapshot(published []*resourceapi.ResourceSlice) *Snapshot {
	s := &Snapshot{known: k, list: slices.Clone(published)}
	s.byNode, s.byPool = sync.OnceValue(s.chainNodes), sync.OnceValue(s.chainPools)
	return s
}

// nodeChains indexes the slices of a snapshot by node.
type nodeChains struct {
	local *chains
	// parts caches the parts of nodes that were asked for, by the first position of a node.
	parts []atomic.Pointer[[]*nodePart]
	// shared holds the parts of pools that are not for one node alone.
	shared []*nodePart
}

// nodePart holds the slices of a pool that a node may see, regardless of its labels: those for it
// alone, and those for more than one node.
type nodePart struct {
	id      PoolID
	members []*knownSlice
	pool    atomic.Pointer[Pool]
}

// soleSlice holds the memory for a node with one slice, in one allocation.
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

// nextPart returns the first part of two sorted lists and the rests of the lists. If both have the
// same pool, it returns the local part, which includes the shared slices.
func nextPart(local, shared []*nodePart) (next *nodePart, localRest, sharedRest []*nodePart) {
	order := cmp.Compare(len(shared), len(local)) // If one list is empty, take from the other.
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

// view returns the node's view of a pool. It reads slices for other nodes only if the node does not
// see a whole generation.
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

// partsOf returns the parts of the pools that have slices for the node alone.
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

// localParts returns the parts of the slices chained from a position on, without the slices for
// more than one node.
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

// members returns the slices chained from a position on, which have the same key.
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

// byPool groups slices by pool and sorts the groups. Within a pool the slices keep their order.
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

// wholePool returns a pool with its slices for all nodes.
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

// sharedRank sorts slices for one node alone before others.
func sharedRank(slice *knownSlice) int {
	if nodeOf(slice.ResourceSlice) == "" {
		return 1
	}
	return 0
}

// chainNodes indexes the list by node in one pass.
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
