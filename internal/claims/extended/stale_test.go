package extended

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNothingLeftWithoutTheFeature: without it nothing is made, and claims are not indexed.
func TestNothingLeftWithoutTheFeature(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p")
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, claims.Add(NewClaim(pod)))
	left, err := Made(pod, claims, func(string, string) *resourceapi.ResourceClaim { return nil })
	require.NoError(t, err)
	require.Empty(t, left)
}

// manager knows one class.
type manager struct {
	fwk.SharedDRAManager
	name  v1.ResourceName
	class *resourceapi.DeviceClass
}

func (m manager) DeviceClassResolver() fwk.DeviceClassResolver { return m }

func (m manager) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if name == m.name {
		return m.class
	}
	return nil
}

// handle has a manager.
type handle struct{ manager fwk.SharedDRAManager }

func (h handle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

func TestBacking(t *testing.T) {
	t.Parallel()
	backed := Backing{handle{manager{name: gpuResource, class: builder.Class("gpu")}}}.Backed
	require.True(t, backed(gpuResource))
	require.False(t, backed(nicResource))
	require.False(t, backed(v1.ResourceCPU))
}
