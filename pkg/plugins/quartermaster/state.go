package quartermaster

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
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/contenders"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/internal/leadership"
	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/recall"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// clusterState keeps inventory and ledger in step with the informers.
//
// An event only says which object to look at; what gets applied is the informer's
// store at that moment. The store is updated before any handler hears of it. So
// whoever learned about an event from another handler can bring the state up to date
// at once by refreshing the same object, and does not have to wait until ours has its
// turn. Whoever wakes pods for a claim, a slice or a rule does so first: otherwise a pod
// could be woken by an event, tried against a state without it, and put to sleep again.
type clusterState struct {
	inventory *inventory.Store
	ledger    *ledger.Ledger

	// order is what two claims for one device are judged by.
	order *claimlog.Order
	// lease says whether this process leads.
	lease *leadership.Lease
	// reporting makes one of the profiles report conflicts for all.
	reporting sync.Once
	// profiles are the plugins that share the state, profilesMutex guards them.
	profiles      []*Quartermaster
	profilesMutex sync.Mutex

	// nodeCache is shared by all profiles like the rest.
	nodeCache *nodecache.Index

	// contenders are the pods of other schedulers that need devices.
	contenders *contenders.Registry

	// memory is where it is remembered what users' requests come to.
	memory *recall.Memory
	looks  *selector.Looks
	// remembered is how many bytes both together may take.
	remembered int64

	// offers is nil without extended resources.
	offers *extendedresource.Offers

	claims cache.Indexer
	slices cache.Indexer
	rules  cache.Indexer // nil if taint rules are off

	handlers []cache.ResourceEventHandlerRegistration
	synced   atomic.Bool
	// began is when the first pod with claims was tried; nil before that.
	began atomic.Pointer[time.Time]
}

// states has one clusterState for each informer factory, because all profiles of
// a scheduler must share one ledger: each has to see what the others have in flight.
var states = struct {
	sync.Mutex
	byFactory map[informers.SharedInformerFactory]*clusterState
}{byFactory: make(map[informers.SharedInformerFactory]*clusterState)}

func stateFor(handle fwk.Handle, supported structured.Features, gates feature.Features) (*clusterState, error) {
	factory := handle.SharedInformerFactory()
	states.Lock()
	defer states.Unlock()
	if state := states.byFactory[factory]; state != nil {
		return state, nil
	}
	// The gate of the rules is not among the scheduler's plugin features.
	withRules := gates.EnableDRADeviceTaints && utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules)
	state, err := newClusterState(factory, supported, withRules)
	if err != nil {
		return nil, err
	}
	if gates.EnableDRAExtendedResource {
		if err := extendedresource.IndexClaims(factory.Resource().V1().ResourceClaims().Informer()); err != nil {
			return nil, err
		}
		if err := state.followOffers(factory.Core().V1().Nodes().Informer()); err != nil {
			return nil, err
		}
	}
	state.lease = &leadership.OfProcess
	state.order = claimlog.New(handle.ClientSet(), state.pool, clock.RealClock{})
	state.inventory.Published = state.order.PoolPublished
	states.byFactory[factory] = state
	return state, nil
}

func newClusterState(factory informers.SharedInformerFactory, supported structured.Features, withRules bool) (*clusterState, error) {
	api := factory.Resource().V1()
	s := &clusterState{
		inventory: inventory.NewStore(allocator.InventoryOptions(supported)),
		ledger:    ledger.New(),
		memory:    recall.New(0),
		looks:     selector.NewLooks(0),
	}
	s.ledger.Pools = s.pool
	if err := s.followNodes(factory); err != nil {
		return nil, err
	}
	var err error
	if s.claims, err = s.follow(api.ResourceClaims().Informer(), s.refreshClaim); err != nil {
		return nil, err
	}
	if s.slices, err = s.follow(api.ResourceSlices().Informer(), s.refreshSlice); err != nil {
		return nil, err
	}
	if withRules {
		s.rules, err = s.follow(api.DeviceTaintRules().Informer(), s.refreshRule)
	}
	return s, err
}

// follow is afterEvents for objects without which no cycle may begin. It returns the
// informer's store.
func (s *clusterState) follow(informer cache.SharedIndexInformer, refresh func(key string)) (cache.Indexer, error) {
	registration, err := afterEvents(informer, refresh)
	if err != nil {
		return nil, fmt.Errorf("watch objects for the state of devices: %w", err)
	}
	s.handlers = append(s.handlers, registration)
	return informer.GetIndexer(), nil
}

// afterEvents has an object refreshed, by its key in the informer's store, after each event
// about it.
func afterEvents(informer cache.SharedIndexInformer, refresh func(key string)) (cache.ResourceEventHandlerRegistration, error) {
	handle := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			refresh(key)
		}
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: handle,
	})
}

// followNodes tells the node cache about nodes.
func (s *clusterState) followNodes(factory informers.SharedInformerFactory) error {
	nodes := factory.Core().V1().Nodes()
	s.nodeCache = nodecache.New(s.inventory, s.ledger, func(name string) *v1.Node {
		node, err := nodes.Lister().Get(name)
		if err != nil {
			return nil
		}
		return node
	})
	changed := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			s.nodeCache.NodeChanged(key)
		}
	}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(before, after any) {
			old, wasNode := before.(*v1.Node)
			node, isNode := after.(*v1.Node)
			if !wasNode || !isNode || !maps.Equal(old.Labels, node.Labels) ||
				!slices.Equal(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures) {
				changed(after)
			}
		},
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	return nil
}

// pool returns a pool with all its devices, nil if there is no such pool.
func (s *clusterState) pool(id inventory.PoolID) *inventory.NodePool {
	if pool := s.inventory.Pool(id); pool != nil {
		return pool.Everywhere()
	}
	return nil
}

// waitForSync blocks until everything that existed at the start is in the state.
// Before that, devices in use would look free.
func (s *clusterState) waitForSync(ctx context.Context) error {
	if s.synced.Load() {
		return nil
	}
	for _, handler := range s.handlers {
		select {
		case <-handler.HasSyncedChecker().Done():
		case <-ctx.Done():
			return fmt.Errorf("waiting for the state of devices: %w", context.Cause(ctx))
		}
	}
	now := time.Now()
	s.began.CompareAndSwap(nil, &now)
	s.synced.Store(true)
	return nil
}

// refreshClaim takes key "namespace/name". Whoever is the first to do so after an event
// wakes the pods that wait for the claim's devices.
func (s *clusterState) refreshClaim(key string) {
	s.freed(s.ledger.Refresh(key, func() *resourceapi.ResourceClaim { return fromStore[resourceapi.ResourceClaim](s.claims, key) }))
}

func (s *clusterState) refreshSlice(name string) {
	s.inventory.RefreshSlice(name, func() *resourceapi.ResourceSlice { return fromStore[resourceapi.ResourceSlice](s.slices, name) })
}

func (s *clusterState) refreshRule(name string) {
	if s.rules == nil {
		return
	}
	s.inventory.RefreshTaintRule(name, func() *resourceapi.DeviceTaintRule { return fromStore[resourceapi.DeviceTaintRule](s.rules, name) })
}

// fromStore returns the object in an informer's store, nil if there is none.
func fromStore[T any](store cache.Indexer, key string) *T {
	obj, found, err := store.GetByKey(key)
	if err != nil || !found {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}
