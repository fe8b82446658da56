package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/limiter"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// State is the scheduler's view of the cluster. It is safe for concurrent use.
//
// An event only says which object to look at; the state takes over the object in the informer's
// store at that moment. The store is updated before any handler is called. A handler that wakes pods for
// a claim, a slice or a DeviceTaintRule must refresh the object first: otherwise a pod could be woken by an
// event, tried against a state without it, and put back into the queue.
type State struct {
	Inventory *inventory.Store
	Ledger    *ledger.Ledger
	// Order decides between two claims for one device. The owner must call its Run.
	Order *allocationlog.Log
	// NodeCache caches which nodes have devices for recurring tasks, and their cost.
	NodeCache *nodecache.Index
	// Holds keep devices for pods that wait and for bookings.
	Holds Holds
	// Free tracks the free CPU and memory of nodes. The owner must make it follow the scheduler's
	// snapshot.
	Free noderesources.Free
	// Memory caches the results of users' requests.
	Memory *Memory
	// Lease says whether this process leads.
	Lease *lease.Lease
	// Writes tracks the pods whose claims are being written.
	Writes limiter.Limiter
	// Claims is the informer's store of claims.
	Claims cache.Indexer

	slices cache.Indexer
	rules  cache.Indexer // nil if DeviceTaintRules are off

	// handlers must have processed all objects that existed at the start.
	handlers []cache.ResourceEventHandlerRegistration
	synced   atomic.Bool
	// began is the time when the first pod with claims was tried, nil before.
	began atomic.Pointer[time.Time]

	// epoch is the zero of the ledger's clock.
	epoch time.Time

	mutex  sync.Mutex
	wakers []Waker
	// published is called after a pool has changed.
	published []func()
}

// New returns a State of the objects in the factory's informers. The owner must pass it their events: NodeChanged,
// PodChanged, and the Refresh functions. Without withRules it ignores DeviceTaintRules, which an API server without them
// cannot serve. The client is for the watch of State.Order; the lease is the scheduler's.
func New(factory informers.SharedInformerFactory, client kubernetes.Interface, supported structured.Features, withRules bool, lease *lease.Lease) (*State, error) {
	s := &State{
		Inventory: inventory.NewStore(allocator.InventoryOptions(supported)),
		Ledger:    ledger.New(),
		Memory:    newMemory(),
		Lease:     lease,
		epoch:     time.Now().Add(-time.Nanosecond), // Its clock is never at 0.
	}
	s.Ledger.Clock = func() int64 { return int64(time.Since(s.epoch)) }
	s.Ledger.Deallocated = s.deallocated
	s.Ledger.Follow(s.Inventory)
	s.Order = allocationlog.New(client, s.Pool, clock.RealClock{})
	s.Inventory.Published = s.poolPublished
	s.Free.Devices = s.Inventory
	s.NodeCache = newNodeCache(s, factory.Core().V1().Nodes().Lister())
	if err := s.indexPods(factory.Core().V1().Pods().Informer()); err != nil {
		return nil, err
	}
	api := factory.Resource().V1()
	s.Claims, s.slices = api.ResourceClaims().Informer().GetIndexer(), api.ResourceSlices().Informer().GetIndexer()
	if withRules {
		s.rules = api.DeviceTaintRules().Informer().GetIndexer()
	}
	return s, nil
}

// SyncWith makes Sync wait for one more handler. It must be called before the informers run.
func (s *State) SyncWith(handler cache.ResourceEventHandlerRegistration) {
	s.handlers = append(s.handlers, handler)
}

// Sync blocks until all objects that existed at the start are in the state. Before that, devices in
// use would look free. The error is that of the context.
func (s *State) Sync(ctx context.Context) error {
	if s.synced.Load() {
		return nil
	}
	if err := s.Known(ctx); err != nil {
		return err
	}
	s.Begin()
	return nil
}

// Known is Sync for callers that do not schedule: it does not make this process the leader.
func (s *State) Known(ctx context.Context) error {
	for _, handler := range s.handlers {
		select {
		case <-handler.HasSyncedChecker().Done():
		case <-ctx.Done():
			return fmt.Errorf("waiting for the state of devices: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Begin ends the wait of Sync: all required objects are in the state.
func (s *State) Begin() {
	now := time.Now()
	s.began.CompareAndSwap(nil, &now)
	s.synced.Store(true)
}

// HasTaintRules reports whether the state follows DeviceTaintRules.
func (s *State) HasTaintRules() bool { return s.rules != nil }

// Pool returns a pool with all its devices, nil if it does not exist.
func (s *State) Pool(id inventory.PoolID) *inventory.NodePool {
	if pool := s.Inventory.Pool(id); pool != nil {
		return pool.Everywhere()
	}
	return nil
}

// RefreshClaim updates the state of a claim from the informer's store; the key is "namespace/name".
// The first call after an event wakes the pods that wait for the claim's devices.
func (s *State) RefreshClaim(key string) {
	s.Freed(s.Ledger.Refresh(key, func() *resourceapi.ResourceClaim { return informer.Object[resourceapi.ResourceClaim](s.Claims, key) }))
}

// RefreshSlice does the same for a ResourceSlice, by name.
func (s *State) RefreshSlice(name string) {
	s.Inventory.RefreshSlice(name, func() *resourceapi.ResourceSlice { return informer.Object[resourceapi.ResourceSlice](s.slices, name) })
}

// RefreshTaintRule does the same for a DeviceTaintRule, by name.
func (s *State) RefreshTaintRule(name string) {
	if s.rules == nil {
		return
	}
	s.Inventory.RefreshTaintRule(name, func() *resourceapi.DeviceTaintRule {
		return informer.Object[resourceapi.DeviceTaintRule](s.rules, name)
	})
}

// Leads returns nil if this process is the one that schedules: the plugin, its informers and the
// claim followers run in each replica. If the process does not follow the leader election (a
// program with the plugin in kube-scheduler's own command), it leads once a pod has been tried.
func (s *State) Leads() error {
	if !s.Lease.Followed() && !s.synced.Load() {
		return fmt.Errorf("%w, as far as is known: no pod was tried so far", lease.ErrNotLeading)
	}
	return s.Lease.Leads()
}

// LeadsSince returns the time at which this process began to schedule, or the current time if it
// has not begun.
func (s *State) LeadsSince() time.Time {
	if s.Lease.Followed() {
		return s.Lease.Since()
	}
	if began := s.began.Load(); began != nil {
		return *began
	}
	return time.Now()
}

// newNodeCache returns the node cache of a state.
func newNodeCache(s *State, nodes corelisters.NodeLister) *nodecache.Index {
	return nodecache.New(s.Inventory, s.Ledger, &s.Free, func(name string) *v1.Node {
		node, err := nodes.Get(name)
		if err != nil {
			return nil
		}
		return node
	})
}

// NodeChanged handles an event about a node. Only what decides where devices are usable matters.
func (s *State) NodeChanged(e informer.Event[v1.Node]) {
	if e.Before == nil || e.After == nil || !maps.Equal(e.Before.Labels, e.After.Labels) ||
		!slices.Equal(e.Before.Status.DeclaredFeatures, e.After.Status.DeclaredFeatures) {
		s.NodeCache.NodeChanged(e.Latest().Name)
	}
}
