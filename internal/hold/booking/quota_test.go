package booking

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuota: of several ResourceQuotas the smallest counts, those with scopes are not for claims, and large numbers do no harm.
func TestQuota(t *testing.T) {
	t.Parallel()
	of := func(namespace, name string, hard map[v1.ResourceName]string, scopes ...v1.ResourceQuotaScope) *v1.ResourceQuota {
		quota := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{}, Scopes: scopes}}
		for of, text := range hard {
			quota.Spec.Hard[of] = apiresource.MustParse(text)
		}
		return quota
	}
	const gpu, disk = v1.ResourceName("gpu" + v1.ResourceClaimsPerClass), v1.ResourceName("disk" + v1.ResourceClaimsPerClass)
	synctest.Test(t, func(t *testing.T) {
		b := run(t, newServer(t, object()),
			of("ns", "a", map[v1.ResourceName]string{gpu: "5", "pods": "1"}), of("ns", "b", map[v1.ResourceName]string{gpu: "4", disk: "1e999999999"}),
			of("ns", "c", map[v1.ResourceName]string{gpu: "1"}, v1.ResourceQuotaScopeBestEffort), of("other", "d", map[v1.ResourceName]string{gpu: "2"}))
		require.Equal(t, map[string]int64{"gpu": 4, "disk": math.MaxInt32}, b.Quota("ns"))
		require.Empty(t, b.Quota("third"))
	})
}

// TestDevices: a booking counts for a quota as a claim like all its copies does, with the worst case of alternatives.
func TestDevices(t *testing.T) {
	t.Parallel()
	exactly := func(class string, n int64, mode resourceapi.DeviceAllocationMode) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: class, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, Count: n, AllocationMode: mode}}
	}
	alternative := func(class string, n int64) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Name: class, DeviceClassName: class, Count: n}
	}
	b := Parse(object(func(o *DeviceBooking) {
		o.Spec.Count = 3
		o.Spec.Devices.Requests = []resourceapi.DeviceRequest{
			exactly("gpu", 2, ""), exactly("disk", 1, resourceapi.DeviceAllocationModeAll),
			{Name: "any", FirstAvailable: []resourceapi.DeviceSubRequest{alternative("gpu", 1), alternative("gpu", 4), alternative("slow", 8)}},
		}
	}))
	require.Equal(t, map[string]int64{"gpu": 3 * (2 + 4), "disk": 3 * resourceapi.AllocationResultsMaxSize, "slow": 3 * 8}, b.Devices())
}
