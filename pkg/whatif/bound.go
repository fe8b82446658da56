package whatif

import (
	"math"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Most nodes that a pod does not fit on are full. That shows without looking at what the claims ask
// for: fewer devices are free than the claims need.

// unbounded is the result of mostOf if several requests can share a device.
const unbounded = math.MaxInt32 - 1

// mostOf returns an upper bound of the number of devices that claims could get from pools.
func (s *Snapshot) mostOf(pools []*inventory.NodePool) int32 {
	most := 0
	for _, pool := range pools {
		if pool.State != inventory.Complete {
			continue
		}
		if pool.Reachable.Intersects(pool.Shareable) {
			return unbounded
		}
		most += pool.Reachable.LenWithout(s.usage.OfPool(pool).Held(pool), 0)
	}
	return int32(most)
}

// mostAt is mostOf for the pools of a node. If asBefore, the pools and their usage are those of the
// world, and the result is cached; the cache stores it plus one, so that 0 means unset.
func (s *Snapshot) mostAt(i int, pools []*inventory.NodePool, asBefore bool) int32 {
	if !asBefore || i < 0 {
		return s.mostOf(pools)
	}
	known := &s.world.nodes[i].most
	if most := known.Load(); most > 0 {
		return most - 1
	}
	most := s.mostOf(pools)
	known.Store(most + 1)
	return most
}

// leastOf returns a lower bound of the number of free devices that claims need.
func leastOf(claims []*resourceapi.ResourceClaim) int32 {
	least := int64(0)
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			least += leastFor(&claim.Spec.Devices.Requests[i])
		}
	}
	return int32(min(least, unbounded-1))
}

func leastFor(request *resourceapi.DeviceRequest) int64 {
	least, known := int64(math.MaxInt32), false
	for r := range dra.Alternatives(request) {
		if r.AdminAccess || r.All() {
			return 0
		}
		least, known = min(least, max(0, r.Count)), true
	}
	if !known {
		return 0
	}
	return least
}
