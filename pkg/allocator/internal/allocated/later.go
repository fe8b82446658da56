package allocated

import (
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// HeldLater looks up whether a device of a pool is held when a straight search reaches the device. It serves
// pools without shares and counters, where holders are the only use.
type HeldLater struct {
	held sets.Set[structured.DeviceID]
	// pool is a device ID with driver and pool but no device name.
	pool structured.DeviceID
}

// LookLater returns nil if the usage of the pool must be known in advance.
func LookLater(usage ledger.View, pool *inventory.NodePool) *HeldLater {
	u, is := usage.(*Usage)
	if !is || len(u.state.AllocatedDevices) == 0 || !u.onlyHeld() || len(pool.Devices) > fewHeld || !pool.Partitions.Empty() {
		return nil
	}
	return &HeldLater{u.state.AllocatedDevices, structured.MakeDeviceID(pool.ID.Driver, pool.ID.Name, "")}
}

// IsHeld reports whether a device is held.
func (h *HeldLater) IsHeld(pool *inventory.NodePool, device int) bool {
	id := h.pool
	id.Device = draapi.MakeUniqueString(pool.Devices[device].Name)
	return h.held.Has(id)
}
