package allocator

import (
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// heldLater looks up whether somebody holds a device of a pool when a straight search meets
// it, where that is all that can be in use.
type heldLater struct {
	held sets.Set[structured.DeviceID]
	// pool is the ID of no device: it has the driver and the pool.
	pool structured.DeviceID
}

// lookLater returns nil if what is in use of the pool has to be known at once.
func lookLater(usage ledger.View, pool *inventory.NodePool) *heldLater {
	u, is := usage.(*allocatedUsage)
	if !is || len(u.state.AllocatedDevices) == 0 || !u.onlyHeld() || len(pool.Devices) > fewHeld || !pool.Partitions.Empty() {
		return nil
	}
	return &heldLater{u.state.AllocatedDevices, structured.MakeDeviceID(pool.ID.Driver, pool.ID.Name, "")}
}

func (h *heldLater) isHeld(pool *inventory.NodePool, device int) bool {
	id := h.pool
	id.Device = draapi.MakeUniqueString(pool.Devices[device].Name)
	return h.held.Has(id)
}
