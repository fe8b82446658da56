package clusterstate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/backpressure"
	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/leadership"
	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// State is what is known of the cluster. It is safe for concurrent use.
//
// An event only says which object to look at; what gets applied is the informer's
// store at that moment. The store is updated before any handler hears of it. So
// whoever learned about an event from another handler can bring the state up to date
// at once by refreshing the same object, and does not have to wait until ours has its
// turn. Whoever wakes pods for a claim, a slice or a rule does so first: otherwise a pod
// could be woken by an event, tried against a state without it, and put to sleep again.
type State struct {
	Inventory *inventory.Store
	Ledger    *ledger.Ledger
	// Order is what two claims for one device are judged by. Somebody has to call its Run.
	Order *claimlog.Order
	// NodeCache knows which nodes have devices for tasks that come again, and what they cost.
	NodeCache *nodecache.Index
	// Rooms has how much CPU and memory is free on nodes. Somebody has to have it follow the
	// scheduler's snapshot.
	Rooms noderoom.Rooms
	// Memory is where it is remembered what users' requests come to.
	Memory *Memory
	// Lease says whether this process leads.
	Lease *leadership.Lease
	// Writes has the pods whose claims are being written.
	Writes backpressure.Gate
	// Claims is the informer's store.
	Claims cache.Indexer

	slices cache.Indexer
	rules  cache.Indexer // nil if taint rules are off

	// handlers are those that have to know everything that existed at the start.
	handlers []cache.ResourceEventHandlerRegistration
	synced   atomic.Bool
	// began is when the first pod with claims was tried; nil before that.
	began atomic.Pointer[time.Time]

	mutex  sync.Mutex
	wakers []Waker
}

// New makes a State that follows the factory's informers. Without withRules it knows of no
// DeviceTaintRules, which an API server without them could not serve. The client is for what
// State.Order watches, the lease is that of the scheduler.
func New(factory informers.SharedInformerFactory, client kubernetes.Interface, supported structured.Features, withRules bool, lease *leadership.Lease) (*State, error) {
	s := &State{
		Inventory: inventory.NewStore(allocator.InventoryOptions(supported)),
		Ledger:    ledger.New(),
		Memory:    newMemory(),
		Lease:     lease,
	}
	s.Ledger.Follow(s.Inventory)
	s.Order = claimlog.New(client, s.Pool, clock.RealClock{})
	s.Inventory.Published = s.Order.PoolPublished
	s.Rooms.HasDevices = s.Inventory.IsLocal
	if err := s.followNodes(factory.Core().V1().Nodes()); err != nil {
		return nil, err
	}
	if err := s.followPods(factory.Core().V1().Pods().Informer()); err != nil {
		return nil, err
	}
	api := factory.Resource().V1()
	var err error
	if s.Claims, err = s.follow(api.ResourceClaims().Informer(), s.RefreshClaim); err != nil {
		return nil, err
	}
	if s.slices, err = s.follow(api.ResourceSlices().Informer(), s.RefreshSlice); err != nil {
		return nil, err
	}
	if withRules {
		s.rules, err = s.follow(api.DeviceTaintRules().Informer(), s.RefreshTaintRule)
	}
	return s, err
}

// follow has objects refreshed after events, without which no cycle may begin. It returns the
// informer's store.
func (s *State) follow(objects cache.SharedIndexInformer, refresh func(key string)) (cache.Indexer, error) {
	registration, err := informer.AfterEvents(objects, refresh)
	if err != nil {
		return nil, fmt.Errorf("watch objects for the state of devices: %w", err)
	}
	s.SyncWith(registration)
	return objects.GetIndexer(), nil
}

// SyncWith has Sync wait for one more handler. It is for the time before the informers run.
func (s *State) SyncWith(handler cache.ResourceEventHandlerRegistration) {
	s.handlers = append(s.handlers, handler)
}

// Sync blocks until everything that existed at the start is in the state. Before that,
// devices in use would look free. The error is that of the context.
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

// Known is Sync for those who schedule nothing: it does not make this process the one that leads.
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

// Begin has Sync wait no longer: everything is known by now that has to be.
func (s *State) Begin() {
	now := time.Now()
	s.began.CompareAndSwap(nil, &now)
	s.synced.Store(true)
}

// HasTaintRules reports whether the state follows DeviceTaintRules.
func (s *State) HasTaintRules() bool { return s.rules != nil }

// Pool returns a pool with all its devices, nil if there is no such pool.
func (s *State) Pool(id inventory.PoolID) *inventory.NodePool {
	if pool := s.Inventory.Pool(id); pool != nil {
		return pool.Everywhere()
	}
	return nil
}

// RefreshClaim takes over what the informer's store has of a claim now; the key is
// "namespace/name". Whoever is the first to do so after an event wakes the pods that wait for
// the claim's devices.
func (s *State) RefreshClaim(key string) {
	s.Freed(s.Ledger.Refresh(key, func() *resourceapi.ResourceClaim { return informer.Object[resourceapi.ResourceClaim](s.Claims, key) }))
}

// RefreshSlice is the same for a slice, by name.
func (s *State) RefreshSlice(name string) {
	s.Inventory.RefreshSlice(name, func() *resourceapi.ResourceSlice { return informer.Object[resourceapi.ResourceSlice](s.slices, name) })
}

// RefreshTaintRule is the same for a rule, by name.
func (s *State) RefreshTaintRule(name string) {
	if s.rules == nil {
		return
	}
	s.Inventory.RefreshTaintRule(name, func() *resourceapi.DeviceTaintRule {
		return informer.Object[resourceapi.DeviceTaintRule](s.rules, name)
	})
}
