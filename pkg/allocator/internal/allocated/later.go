package allocated

import (
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// HeldLater looks up whether somebody holds a device of a pool when a straight search meets
// it, where that is all that can be in use.
type HeldLater struct {
	held sets.Set[structured.DeviceID]
	// pool is the ID of no device: it has the driver and the pool.
	pool structured.DeviceID
}

// LookLater returns nil if what is in use of the pool has to be known at once.
func LookLater(usage ledger.View, pool *inventory.NodePool) *HeldLater {
	u, is := usage.(*Usage)
	if !is || len(u.state.AllocatedDevices) == 0 || !u.onlyHeld() || len(pool.Devices) > fewHeld || !pool.Partitions.Empty() {
		return nil
	}
	return &HeldLater{u.state.AllocatedDevices, structured.MakeDeviceID(pool.ID.Driver, pool.ID.Name, "")}
}

// IsHeld looks a device up.
func (h *HeldLater) IsHeld(pool *inventory.NodePool, device int) bool {
	id := h.pool
	id.Device = draapi.MakeUniqueString(pool.Devices[device].Name)
	return h.held.Has(id)
}
