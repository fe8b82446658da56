package whatif

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Options configures how a Snapshot looks for devices. The zero value matches the scheduler.
type Options struct {
	// Seed decides between nodes that are equally good. With 0, the first one by name wins.
	Seed uint64
	// StepBudget limits the search on one node, see allocator.Solver.
	StepBudget int
	// Resolve finds the requests of claims that refer to parameters, see allocator.Solver.
	Resolve func(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
}

// Snapshot is a state of a cluster to ask questions about. It is immutable and safe for concurrent
// use.
type Snapshot struct {
	world *world

	nodes     layered[v1.Node]
	claims    layered[resourceapi.ResourceClaim]
	templates layered[resourceapi.ResourceClaimTemplate]
	classes   layered[resourceapi.DeviceClass]
	pods      layered[v1.Pod]
	missing   []Missing

	usage usage
	// extra holds the pools whose slices differ from the world's, with all their slices; nil if
	// there are none.
	extra *extra
	// taken holds what is taken on nodes beyond the world's state.
	taken  map[string]room
	solver *allocator.Solver
}

// New makes a snapshot of objects. Its cost grows with the cluster; that of derived snapshots does
// not.
func New(objects Objects, options Options) *Snapshot {
	s := &Snapshot{
		nodes:     newLayered(byKey(objects.Nodes)),
		claims:    newLayered(byKey(storedClaims(objects.Claims))),
		templates: newLayered(byKey(objects.Templates)),
		classes:   newLayered(byKey(identified(objects.Classes, false))),
		pods:      newLayered(byKey(objects.Pods)),
		missing:   objects.Missing,
	}
	s.world = newWorld(objects, options, s)
	s.usage = usage{ledger: s.world.ledger}
	s.solver = &allocator.Solver{
		Features: allocator.Supported, Evaluator: newEvaluator(), StepBudget: options.StepBudget, KeepShared: true,
		Resolve: options.Resolve, NewShareID: shareIDs(options.Seed),
	}
	s.solver.Classes = (*classes)(s)
	return s
}

// Nodes returns the nodes, sorted by name.
func (s *Snapshot) Nodes() []*v1.Node { return slices.Collect(s.nodes.all()) }

// Node returns a node, nil if there is none.
func (s *Snapshot) Node(name string) *v1.Node { return s.nodes.get(name) }

// Pods returns the pods, sorted by namespace/name.
func (s *Snapshot) Pods() []*v1.Pod { return slices.Collect(s.pods.all()) }

// Pod returns a pod, nil if there is none.
func (s *Snapshot) Pod(namespace, name string) *v1.Pod { return s.pods.get(namespace + "/" + name) }

// Claims returns the claims, sorted by namespace/name.
func (s *Snapshot) Claims() []*resourceapi.ResourceClaim { return slices.Collect(s.claims.all()) }

// Claim returns a claim, nil if there is none.
func (s *Snapshot) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return s.claims.get(namespace + "/" + name)
}

// Template returns a claim template, nil if there is none.
func (s *Snapshot) Template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	return s.templates.get(namespace + "/" + name)
}

// Classes returns the device classes, sorted by name.
func (s *Snapshot) Classes() []*resourceapi.DeviceClass { return slices.Collect(s.classes.all()) }

// Class returns a device class, nil if there is none.
func (s *Snapshot) Class(name string) *resourceapi.DeviceClass { return s.classes.get(name) }

// Missing returns the kinds of objects that could not be read.
func (s *Snapshot) Missing() []Missing { return s.missing }

// Usage returns the usage of pools.
func (s *Snapshot) Usage() ledger.View { return &s.usage }

// Evaluator returns the evaluator of expressions over the snapshot's pools.
func (s *Snapshot) Evaluator() *selector.Evaluator { return s.solver.Evaluator }

// Pools returns all pools with their devices for all nodes, sorted by driver and name.
func (s *Snapshot) Pools() []*inventory.NodePool {
	var all []*inventory.NodePool
	for _, id := range s.world.poolIDs {
		if s.extra.has(id) {
			continue
		}
		if pool := s.world.store.Pool(id); pool != nil {
			all = append(all, pool.Everywhere())
		}
	}
	if s.extra != nil {
		for id := range s.extra.pools {
			if pool := s.extra.store.Pool(id); pool != nil {
				all = append(all, pool.Everywhere())
			}
		}
		slices.SortFunc(all, func(a, b *inventory.NodePool) int { return a.ID.Compare(b.ID) })
	}
	return all
}

// PoolsOn returns the pools that a node sees, in the order in which their devices are tried. Only
// the devices in Reachable are for the node.
func (s *Snapshot) PoolsOn(node *v1.Node) []*inventory.NodePool {
	pools, _ := s.poolsOn(node)
	return pools
}

// Pool returns a pool with all its devices, nil if there is none.
func (s *Snapshot) Pool(id inventory.PoolID) *inventory.NodePool {
	store := s.world.store
	if s.extra.has(id) {
		store = s.extra.store
	}
	if pool := store.Pool(id); pool != nil {
		return pool.Everywhere()
	}
	return nil
}

// classes makes a Snapshot a lister of its classes.
type classes Snapshot

// List implements structured.DeviceClassLister.
func (c *classes) List() ([]*resourceapi.DeviceClass, error) { return (*Snapshot)(c).Classes(), nil }

// Get implements structured.DeviceClassLister.
func (c *classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c.classes.get(name); class != nil {
		return class, nil
	}
	return nil, (*Snapshot)(c).absent(resourceClasses, "", "device class "+name, notFound("deviceclasses", name))
}

// GetDeviceClass implements the scheduler framework's DeviceClassResolver.
func (c *classes) GetDeviceClass(resource v1.ResourceName) *resourceapi.DeviceClass {
	return extended.ClassFor(resource, c.classes.all())
}
