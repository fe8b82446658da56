// Package allocated lets searches see upstream's allocated state as a view of what is used.
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

// Usage is the allocated state as a view of what is used. Devices are looked up
// when a search comes to their pool; nothing is copied. The state names no holders, so
// neither does the view.
type Usage struct {
	state structured.AllocatedState
	// shared are the devices of which somebody has a share.
	shared func() sets.Set[structured.DeviceID]
	pools  sync.Map // *inventory.Layout to *ledger.PoolUsage
}

// NewUsage looks at nothing yet.
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

// onlyHeld reports whether nobody has shares.
func (u *Usage) onlyHeld() bool {
	return len(u.state.AllocatedSharedDeviceIDs) == 0 && len(u.state.AggregatedCapacity) == 0
}

// fewHeld is of how many devices it is rather looked up again whether they are held than
// remembered.
const fewHeld = 16

// heldOf is OfPool if nobody has shares.
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

// decidingLayout has the devices of which it matters to a node whether they are used: those
// that it sees, and those for other nodes as well if there are counters to draw on.
func decidingLayout(pool *inventory.NodePool) *inventory.Layout {
	if whole := pool.Whole(); whole != nil && !whole.Partitions.Empty() {
		return whole
	}
	return pool.Layout
}

// Pool implements ledger.View. It goes through the whole state; searches use OfPool.
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

// somebody is who has a device.
var somebody = []ledger.ClaimRef{{}}

// of returns what is used of a device. What its shares consume is only known as a sum.
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

// idsKey is where a pool keeps the IDs of its devices.
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
