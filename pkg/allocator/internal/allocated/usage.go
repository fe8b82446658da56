// Package allocated presents upstream's allocated state (structured.AllocatedState) to searches as a ledger view.
package allocated

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Usage is a ledger view of the allocated state. It looks devices up when a search reaches their pool, and
// copies nothing. The state names no holders, so neither does the view.
type Usage struct {
	state structured.AllocatedState
	// shared are the devices with at least one share in use.
	shared func() sets.Set[structured.DeviceID]
	pools  sync.Map // *inventory.Layout to *ledger.PoolUsage
}

// NewUsage returns the view of a state. It reads nothing of the state yet.
func NewUsage(state structured.AllocatedState) *Usage {
	u := &Usage{state: state}
	u.shared = sync.OnceValue(u.sharedDevices)
	return u
}

func (u *Usage) sharedDevices() sets.Set[structured.DeviceID] {
	devices := make(sets.Set[structured.DeviceID], len(u.state.AllocatedSharedDeviceIDs))
	for id := range u.state.AllocatedSharedDeviceIDs {
		devices.Insert(id.GetDeviceID())
	}
	return devices
}

// OfPool implements ledger.ByPool.
func (u *Usage) OfPool(pool *inventory.NodePool) *ledger.PoolUsage {
	if len(u.state.AllocatedDevices) == 0 && len(u.state.AllocatedSharedDeviceIDs) == 0 && len(u.state.AggregatedCapacity) == 0 {
		return ledger.Fixed(nil).Pool(pool.ID)
	}
	layout := decidingLayout(pool)
	onlyHeld := layout == pool.Layout && u.onlyHeld()
	if onlyHeld && len(layout.Devices) <= fewHeld {
		return u.heldOf(pool)
	}
	if known, found := u.pools.Load(layout); found {
		return known.(*ledger.PoolUsage)
	}
	if onlyHeld {
		usage, _ := u.pools.LoadOrStore(layout, u.heldOf(pool))
		return usage.(*ledger.PoolUsage)
	}
	var devices map[string]ledger.DeviceUsage
	for _, id := range idsOf(pool.ID, layout) {
		if usage, used := u.of(id); used {
			if devices == nil {
				devices = make(map[string]ledger.DeviceUsage)
			}
			devices[id.Device.String()] = usage
		}
	}
	usage, _ := u.pools.LoadOrStore(layout, ledger.NewPoolUsage(devices))
	return usage.(*ledger.PoolUsage)
}

// onlyHeld reports whether there are no shares.
func (u *Usage) onlyHeld() bool {
	return len(u.state.AllocatedSharedDeviceIDs) == 0 && len(u.state.AggregatedCapacity) == 0
}

// fewHeld is the number of devices up to which another look-up of the holders is cheaper than remembering them.
const fewHeld = 16

// heldOf is OfPool for a state without shares.
func (u *Usage) heldOf(pool *inventory.NodePool) *ledger.PoolUsage {
	var held bitset.Set
	for i, id := range idsOf(pool.ID, pool.Layout) {
		if u.state.AllocatedDevices.Has(id) {
			if held == nil {
				held = bitset.New(len(pool.Devices))
			}
			held.Add(i)
		}
	}
	return ledger.NewHeldUsage(pool.Layout, held, somebody)
}

// decidingLayout returns the devices whose use matters to a node: those that it sees, and also those for
// other nodes if the pool has counters.
func decidingLayout(pool *inventory.NodePool) *inventory.Layout {
	if whole := pool.Whole(); whole != nil && !whole.Partitions.Empty() {
		return whole
	}
	return pool.Layout
}

// Pool implements ledger.View. It reads the whole state; searches use OfPool.
func (u *Usage) Pool(id inventory.PoolID) *ledger.PoolUsage {
	devices := make(map[string]ledger.DeviceUsage)
	add := func(device structured.DeviceID) {
		if device.Driver.String() == id.Driver && device.Pool.String() == id.Name {
			devices[device.Device.String()], _ = u.of(device)
		}
	}
	for device := range u.state.AllocatedDevices {
		add(device)
	}
	for device := range u.shared() {
		add(device)
	}
	for device := range u.state.AggregatedCapacity {
		add(device)
	}
	return ledger.NewPoolUsage(devices)
}

// somebody is the anonymous holder of every device in use.
var somebody = []ledger.ClaimRef{{}}

// of returns the usage of a device. The consumption of its shares is known only as a sum.
func (u *Usage) of(id structured.DeviceID) (usage ledger.DeviceUsage, used bool) {
	if u.state.AllocatedDevices.Has(id) {
		usage.Holders, used = somebody, true
	}
	if consumed, found := u.state.AggregatedCapacity[id]; found {
		amounts := make(capacity.Amounts, len(consumed))
		for name, quantity := range consumed {
			amounts[name] = *quantity
		}
		usage.Shares, used = []ledger.Share{{Consumed: amounts}}, true
	} else if len(u.state.AllocatedSharedDeviceIDs) > 0 && u.shared().Has(id) {
		usage.Shares, used = []ledger.Share{{}}, true
	}
	return usage, used
}

// idsKey is the key of a pool's device IDs.
type idsKey struct{}

// idsOf returns the IDs of the devices of a layout.
func idsOf(pool inventory.PoolID, layout *inventory.Layout) []structured.DeviceID {
	return inventory.Cached(&layout.Derived, idsKey{}, func() []structured.DeviceID {
		id := structured.MakeDeviceID(pool.Driver, pool.Name, "")
		ids := make([]structured.DeviceID, len(layout.Devices))
		for i := range ids {
			id.Device = draapi.MakeUniqueString(layout.Devices[i].Name)
			ids[i] = id
		}
		return ids
	})
}

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
