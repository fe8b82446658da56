package server

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Holdings gives access to the published devices and their holders.
type Holdings struct {
	Ledger *ledger.Ledger
	// Scheduler is the scheduler in this process, nil if there is none.
	Scheduler guard.Scheduler
	Informers
}

// Informers are informers of claims and slices, which keep the ledger up to date.
type Informers interface {
	guard.StoredClaims
	// OnClaim and OnSlice register a function that is called after each event, when ledger and inventory have
	// processed it. Claims have the key "namespace/name".
	OnClaim(changed func(key string)) error
	OnSlice(changed func(name string)) error
	// Start is called when all functions are registered. It starts informers that do not run yet.
	Start(context.Context)
	// Sync waits until the initial lists are processed.
	Sync(context.Context) error
}

// ownInformers are the informers of a process without a scheduler.
type ownInformers struct {
	factory        informers.SharedInformerFactory
	claims, slices cache.SharedIndexInformer
	pools          *inventory.Store
	ledger         *ledger.Ledger
	synced         []cache.InformerSynced
}

// Follow returns Holdings for a process without a scheduler, on its own informers.
func Follow(client kubernetes.Interface) *Holdings {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	// The features of the schedulers are unknown here, so all slices count.
	o := &ownInformers{
		factory: factory, claims: factory.Resource().V1().ResourceClaims().Informer(), slices: factory.Resource().V1().ResourceSlices().Informer(),
		pools: inventory.NewStore(inventory.Options{PartitionableDevices: true, CompatibilityGroups: true}), ledger: ledger.New(),
	}
	o.ledger.Follow(o.pools)
	return &Holdings{Ledger: o.ledger, Informers: o}
}

// Claim implements guard.StoredClaims.
func (o *ownInformers) Claim(key string) *resourceapi.ResourceClaim {
	return informer.Object[resourceapi.ResourceClaim](o.claims.GetStore(), key)
}

// OnClaim implements Informers.
func (o *ownInformers) OnClaim(changed func(key string)) error {
	return o.after(o.claims, func(key string) {
		o.ledger.Refresh(key, func() *resourceapi.ResourceClaim { return o.Claim(key) })
		changed(key)
	})
}

// OnSlice implements Informers.
func (o *ownInformers) OnSlice(changed func(name string)) error {
	return o.after(o.slices, func(name string) {
		o.pools.RefreshSlice(name, func() *resourceapi.ResourceSlice {
			return informer.Object[resourceapi.ResourceSlice](o.slices.GetStore(), name)
		})
		changed(name)
	})
}

func (o *ownInformers) after(objects cache.SharedIndexInformer, changed func(key string)) error {
	registration, err := informer.AfterEvents(objects, changed)
	if err != nil {
		return fmt.Errorf("watch what the guard needs to know: %w", err)
	}
	o.synced = append(o.synced, registration.HasSynced)
	return nil
}

// Start implements Informers. They run until the context ends.
func (o *ownInformers) Start(ctx context.Context) { o.factory.StartWithContext(ctx) }

// Sync implements Informers.
func (o *ownInformers) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), o.synced...) {
		return fmt.Errorf("waiting for the lists of claims and slices: %w", context.Cause(ctx))
	}
	return nil
}

// withoutManagedFields halves the memory of objects.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
