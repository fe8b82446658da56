package ledger

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Freed are the devices of which less is in use than before, by pool: what others may have
// waited for. All that changes the ledger says so itself, because from outside it cannot be
// known: of a claim that was allocated and deallocated while the watch was broken, no event
// shows that it ever had anything.
type Freed map[inventory.PoolID][]string

// And returns what became free in one of two steps. Either may be nil, and must not be
// used any more.
func (f Freed) And(more Freed) Freed {
	if f == nil {
		return more
	}
	for id, devices := range more {
		f[id] = append(f[id], devices...)
	}
	return f
}

// freed returns what an allocation had and the next one has not, now that this is
// published. A device that another claim has for itself as well is not free.
func (l *Ledger) freed(before, after *resourceapi.AllocationResult) Freed {
	if before == nil {
		return nil
	}
	type use struct {
		inventory.PoolID
		device string
		share  types.UID
	}
	kept := make(map[use]*resourceapi.DeviceRequestAllocationResult)
	for result := range Used(after) {
		kept[use{PoolOf(result), result.Device, ptr.Deref(result.ShareID, "")}] = result
	}
	var freed Freed
	for result := range Used(before) {
		id := PoolOf(result)
		same := kept[use{id, result.Device, ptr.Deref(result.ShareID, "")}]
		if same != nil && sameConsumption(same, result) || len(l.Pool(id).Device(result.Device).Holders) > 0 {
			continue
		}
		if freed == nil {
			freed = make(Freed)
		}
		freed[id] = append(freed[id], result.Device)
	}
	return freed
}
