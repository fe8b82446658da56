package whatif

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// world is the state that all derived snapshots share. Only its caches change.
type world struct {
	options Options

	store   *inventory.Store
	poolIDs []inventory.PoolID // sorted
	slices  []*resourceapi.ResourceSlice
	rules   []*resourceapi.DeviceTaintRule
	byPool  func() map[inventory.PoolID][]*resourceapi.ResourceSlice
	// poolByName maps the names of slices to their pools.
	poolByName func() map[string]inventory.PoolID

	ledger *ledger.Ledger

	// nodes holds the nodes in the order in which they are tried, and index maps a node to its
	// position.
	nodes []worldNode
	// elsewhere holds the resources that pods take of nodes that the world does not have.
	elsewhere map[string]room
	index     map[string]int
	memory    memory
}

// worldNode is a node of the world, at its position in nodes.
type worldNode struct {
	node *v1.Node
	// free holds the resources that the node's pods leave.
	free room
	// pools caches the pools that the node sees.
	pools atomic.Pointer[[]*inventory.NodePool]
	// most caches Snapshot.mostAt.
	most atomic.Int32
}

func newWorld(objects Objects, options Options, s *Snapshot) *world {
	w := &world{
		options: options, slices: named(lastOfName(objects.Slices), func(string) bool { return false }), rules: objects.TaintRules,
		ledger: ledger.New(), index: make(map[string]int),
	}
	w.store = newStore(w.slices, w.rules)
	w.ledger.Follow(w.store) // The former consumption of withdrawn devices is unknown here.
	w.byPool = sync.OnceValue(w.slicesByPool)
	w.poolByName = sync.OnceValue(func() map[string]inventory.PoolID {
		pools := make(map[string]inventory.PoolID, len(w.slices))
		for _, slice := range w.slices {
			pools[slice.Name] = poolOf(slice)
		}
		return pools
	})
	for id := range poolsOf(w.slices) {
		w.poolIDs = append(w.poolIDs, id)
	}
	slices.SortFunc(w.poolIDs, inventory.PoolID.Compare)
	for claim := range s.claims.all() {
		w.ledger.Refresh(Key(claim), func() *resourceapi.ResourceClaim { return claim })
	}
	w.addPlaces(s)
	return w
}

func newStore(published []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) *inventory.Store {
	store := inventory.FromSlices(published, allocator.InventoryOptions(allocator.Supported))
	for _, rule := range rules {
		store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return rule })
	}
	return store
}

// addPlaces sorts the nodes, and computes the free resources on them.
func (w *world) addPlaces(s *Snapshot) {
	taken := make(map[string][]*v1.Pod)
	for pod := range s.pods.all() {
		if isOnNode(pod) {
			taken[pod.Spec.NodeName] = append(taken[pod.Spec.NodeName], pod)
		}
	}
	nodes := s.Nodes()
	slices.SortFunc(nodes, w.order)
	w.nodes = make([]worldNode, len(nodes))
	for i, node := range nodes {
		free := roomOf(node.Status.Allocatable)
		for _, pod := range taken[node.Name] {
			free = free.minus(takenBy(pod, nil))
		}
		w.nodes[i].node, w.nodes[i].free, w.index[node.Name] = node, free, i
		delete(taken, node.Name)
	}
	w.elsewhere = make(map[string]room, len(taken))
	for name, pods := range taken {
		sum := room{}
		for _, pod := range pods {
			sum = sum.minus(takenBy(pod, nil).negated())
		}
		w.elsewhere[name] = sum
	}
}

// positionOf returns the position of a node, -1 if the world does not have it.
func (w *world) positionOf(node string) int {
	if i, known := w.index[node]; known {
		return i
	}
	return -1
}

// isOnNode reports whether a pod takes resources of its node.
func isOnNode(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && !hasEnded(pod)
}

func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// order compares nodes in the order in which they are tried: by name, or with a seed in an order
// that depends only on the seed and the names.
func (w *world) order(a, b *v1.Node) int {
	if seed := w.options.Seed; seed != 0 {
		return cmp.Or(cmp.Compare(rank(a.Name, seed), rank(b.Name, seed)), cmp.Compare(a.Name, b.Name))
	}
	return cmp.Compare(a.Name, b.Name)
}

func (w *world) before(a, b *v1.Node) bool { return w.order(a, b) < 0 }

func rank(name string, seed uint64) uint64 {
	hash := fnv.New64a()
	hash.Write(binary.LittleEndian.AppendUint64(nil, seed))
	hash.Write([]byte(name))
	return hash.Sum64()
}

func (w *world) slicesByPool() map[inventory.PoolID][]*resourceapi.ResourceSlice {
	return poolsOf(w.slices)
}

func poolsOf(published []*resourceapi.ResourceSlice) map[inventory.PoolID][]*resourceapi.ResourceSlice {
	byPool := make(map[inventory.PoolID][]*resourceapi.ResourceSlice)
	for _, slice := range published {
		id := inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
		byPool[id] = append(byPool[id], slice)
	}
	return byPool
}

// poolsAt returns the pools that a node of the world sees.
func (w *world) poolsAt(i int) []*inventory.NodePool {
	p := &w.nodes[i]
	if known := p.pools.Load(); known != nil {
		return *known
	}
	pools := w.store.OnNode(p.node)
	p.pools.Store(&pools)
	return pools
}
