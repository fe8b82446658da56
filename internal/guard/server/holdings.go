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

// Holdings gives access to the published devices and their holders.
type Holdings struct {
	Ledger *ledger.Ledger
	Pools  ledger.Pools
	// Claim returns a claim as the watch has shown it, by "namespace/name", nil if it has not.
	Claim func(key string) *resourceapi.ResourceClaim
	// OnClaim and OnSlice register a function that is called after each event, when ledger and inventory have
	// processed it. Claims have the key "namespace/name".
	OnClaim, OnSlice func(changed func(key string)) error
	// Ended is called with each claim whose approved allocation was stored or cannot be stored any more, and with the
	// freed devices. It must not call the guard. It may be nil.
	Ended func(ledger.ClaimRef, ledger.Freed)
	// Sync waits until the initial lists are processed.
	Sync func(context.Context) error
}

// Follow returns Holdings for a process without a scheduler, on its own informers. They run from the call of run
// until the context ends.
func Follow(client kubernetes.Interface) (holdings *Holdings, run func(context.Context), err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	claims, slices := factory.Resource().V1().ResourceClaims().Informer(), factory.Resource().V1().ResourceSlices().Informer()
	// The features of the schedulers are unknown here, so all slices count.
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

// withoutManagedFields halves the memory of objects.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(interface {
		SetManagedFields([]metav1.ManagedFieldsEntry)
	}); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
