package harness

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Holders knows at any time which claims of a namespace have which devices, and whether one was ever
// had twice. The watch shows the states in the order in which they were stored.
type Holders struct {
	namespace string

	mutex    sync.Mutex
	byDevice map[string][]types.UID
	devices  map[types.UID][]string
	history  map[string][]string // names of the claims to which a device was allocated, in that order
	twice    []string
}

// WatchHolders follows the claims of a space until the test ends.
func WatchHolders(s *Space) *Holders {
	s.T.Helper()
	h := &Holders{namespace: s.Name, byDevice: make(map[string][]types.UID), devices: make(map[types.UID][]string), history: make(map[string][]string)}
	informer := s.Cluster.Informers.Resource().V1().ResourceClaims().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(claim any) { h.saw(claim) },
		UpdateFunc: func(_, claim any) { h.saw(claim) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			h.gone(object)
		},
	})
	require.NoError(s.T, err)
	s.T.Cleanup(func() { require.NoError(s.T, informer.RemoveEventHandler(registration)) })
	return h
}

func (h *Holders) saw(object any) {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if !ok || claim.Namespace != h.namespace {
		return
	}
	var devices []string
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, result.Pool+"/"+result.Device)
		}
	}
	h.has(claim, devices)
}

func (h *Holders) gone(object any) {
	if claim, ok := object.(*resourceapi.ResourceClaim); ok {
		h.has(claim, nil)
	}
}

func (h *Holders) has(claim *resourceapi.ResourceClaim, devices []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if slices.Equal(h.devices[claim.UID], devices) {
		return
	}
	for _, device := range h.devices[claim.UID] {
		h.byDevice[device] = slices.DeleteFunc(h.byDevice[device], func(uid types.UID) bool { return uid == claim.UID })
	}
	h.devices[claim.UID] = devices
	for _, device := range devices {
		h.history[device] = append(h.history[device], claim.Name)
		if h.byDevice[device] = append(h.byDevice[device], claim.UID); len(h.byDevice[device]) > 1 {
			h.twice = append(h.twice, fmt.Sprintf("%s at version %s: claims %v, the last one is %s", device, claim.ResourceVersion, h.byDevice[device], claim.Name))
		}
	}
}

// Seen returns how many devices were allocated, and which of them while another claim had them.
func (h *Holders) Seen() (allocations int, twice []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, claims := range h.history {
		allocations += len(claims)
	}
	return allocations, slices.Clone(h.twice)
}

// Had returns the names of the claims that have or had a device (pool/device), in the order of their allocation.
func (h *Holders) Had(device string) []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return slices.Clone(h.history[device])
}
