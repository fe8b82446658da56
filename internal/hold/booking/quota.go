package booking

import (
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

// toQuota is a cache.TransformFunc that drops what nobody needs of a ResourceQuota.
func toQuota(obj any) (any, error) {
	if quota, ok := obj.(*v1.ResourceQuota); ok {
		quota.ManagedFields, quota.Status = nil, v1.ResourceQuotaStatus{}
	}
	return obj, nil
}

// Quota returns the numbers of devices, by class, that the ResourceQuotas of a namespace allow for all its claims together.
func (b *Bookings) Quota(namespace string) map[string]int64 {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.known.quotas == nil {
		return nil
	}
	quotas, _ := b.known.quotas.ByIndex(cache.NamespaceIndex, namespace) // It fails only without the index.
	all := make(map[string]int64)
	for _, obj := range quotas {
		spec := obj.(*v1.ResourceQuota).Spec
		if len(spec.Scopes) > 0 || spec.ScopeSelector != nil {
			continue // Claims have no scopes.
		}
		for name, hard := range spec.Hard {
			class, is := strings.CutSuffix(string(name), v1.ResourceClaimsPerClass)
			most := int64(min(quantity.Float(hard), math.MaxInt32)) // No cluster has more.
			if known, found := all[class]; is && (!found || most < known) {
				all[class] = most
			}
		}
	}
	return all
}

// Devices returns the numbers of devices, by class, that a ResourceQuota counts for a claim like all copies together.
func (b *Booking) Devices() map[string]int64 {
	all := make(map[string]int64)
	requests := b.Spec.Devices.Requests
	for i := range requests {
		of := make(map[string]int64)
		for r := range dra.Alternatives(&requests[i]) {
			n := r.Count
			if r.All() {
				n = resourceapi.AllocationResultsMaxSize
			}
			of[r.Class] = max(of[r.Class], n)
		}
		for class, n := range of {
			all[class] += n * int64(b.Spec.Count)
		}
	}
	return all
}
