package server

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Holdings are what is published and who holds what.
type Holdings struct {
	Ledger *ledger.Ledger
	Pools  ledger.Pools
	// Claim returns a claim as the watch has shown it, by "namespace/name", nil if it has not.
	Claim func(key string) *resourceapi.ResourceClaim
	// OnClaim and OnSlice have a function called after each event, when ledger and inventory know
	// what it says. A claim is "namespace/name".
	OnClaim, OnSlice func(changed func(key string)) error
	// Ended is told of claims whose approved allocation has been stored or will not be any more, with
	// what has become free. It must not ask the guard. It is nil if nobody wants to know.
	Ended func(ledger.ClaimRef, ledger.Freed)
	// Sync waits until all that existed at the start is known.
	Sync func(context.Context) error
}

// Follow makes Holdings for a process that has none, from informers of its own. They run until the
// context ends, once run is called.
func Follow(client kubernetes.Interface) (holdings *Holdings, run func(context.Context), err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	claims, slices := factory.Resource().V1().ResourceClaims().Informer(), factory.Resource().V1().ResourceSlices().Informer()
	// Who has allocated with these features on is not known here, so all slices count.
	pools := inventory.NewStore(inventory.Options{PartitionableDevices: true, CompatibilityGroups: true})
	holdings = &Holdings{Ledger: ledger.New()}
	holdings.Ledger.Follow(pools)
	holdings.Pools = holdings.Ledger.Pools
	holdings.Claim = func(key string) *resourceapi.ResourceClaim {
		return informer.Object[resourceapi.ResourceClaim](claims.GetStore(), key)
	}
	refreshClaim := func(key string) {
		holdings.Ledger.Refresh(key, func() *resourceapi.ResourceClaim { return holdings.Claim(key) })
	}
	refreshSlice := func(name string) {
		pools.RefreshSlice(name, func() *resourceapi.ResourceSlice {
			return informer.Object[resourceapi.ResourceSlice](slices.GetStore(), name)
		})
	}
	var synced []cache.InformerSynced
	follow := func(objects cache.SharedIndexInformer, refresh func(string)) func(func(string)) error {
		return func(changed func(string)) error {
			registration, err := informer.AfterEvents(objects, func(key string) { refresh(key); changed(key) })
			if err != nil {
				return fmt.Errorf("watch what the guard needs to know: %w", err)
			}
			synced = append(synced, registration.HasSynced)
			return nil
		}
	}
	holdings.OnClaim, holdings.OnSlice = follow(claims, refreshClaim), follow(slices, refreshSlice)
	holdings.Sync = func(ctx context.Context) error {
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return fmt.Errorf("waiting for the lists of claims and slices: %w", context.Cause(ctx))
		}
		return nil
	}
	return holdings, factory.StartWithContext, nil
}

// withoutManagedFields saves half of the memory that objects take.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(interface {
		SetManagedFields([]metav1.ManagedFieldsEntry)
	}); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
