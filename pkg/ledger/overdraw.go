package ledger

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Pools looks a pool up: all its devices, wherever they are. It returns nil for a pool
// that is not known.
type Pools func(inventory.PoolID) *inventory.NodePool

// OverdrawnError says that a plan needs more of something than is left by now.
type OverdrawnError struct {
	Claim  ClaimRef // who wants it
	Pool   inventory.PoolID
	Device string
	// Resource is "capacity NAME" of the device (KEP-5075), or "counter SET/NAME" of the
	// pool (KEP-4815).
	Resource string
}

func (e *OverdrawnError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s, but too little is left of %s by now; looking for other devices",
		e.Claim, e.Pool, e.Device, e.Resource)
}

// overdraw returns an error if a claim that is not allocated cannot have the allocation
// because of what is left of counters and capacities, or of compatibility groups. The
// record is the claim's, nil if there is none: what it has in flight would be replaced. Of
// pools and devices that are not published (any more) nobody knows what is left: those are
// not judged.
//
// A cycle of the scheduler that plans and reserves without others in between never gets
// here with too much. But plans may be made from one view and put in flight one after the
// other (pods of a group), and an event may come between a plan and its reservation.
func (l *Ledger) overdraw(ref ClaimRef, r *record, allocation *resourceapi.AllocationResult) error {
	if l.Pools == nil || r != nil && r.inFlight == allocation {
		return nil
	}
	var judged []inventory.PoolID
	for i := range allocation.Devices.Results {
		id := poolOf(&allocation.Devices.Results[i])
		if slices.Contains(judged, id) {
			continue
		}
		judged = append(judged, id)
		pool := l.Pools(id)
		if pool == nil {
			continue
		}
		usage := l.pool(pool.Key)
		if r != nil && r.inFlight != nil {
			usage = usage.change(id, ref, r.inFlight, nil)
		}
		if err := overdrawCounters(ref, usage, pool, allocation); err != nil {
			return err
		}
		if err := checkGroups(ref, usage, pool, allocation); err != nil {
			return err
		}
		if err := overdrawCapacity(ref, usage, pool, allocation); err != nil {
			return err
		}
	}
	return nil
}

// overdrawCounters judges the devices of one pool that nobody uses yet: one more share of
// a device draws nothing.
func overdrawCounters(ref ClaimRef, usage *PoolUsage, pool *inventory.NodePool, allocation *resourceapi.AllocationResult) error {
	if pool.Counters == nil || len(pool.Counters.Names) == 0 {
		return nil
	}
	var left []amount.Amount
	drawn := make(map[string]bool)
	for result := range resultsIn(pool.ID, allocation) {
		if usage.Uses(result.Device) || drawn[result.Device] {
			continue
		}
		drawn[result.Device] = true
		for _, draw := range pool.Draws(result.Device) {
			if left == nil {
				left = slices.Clone(usage.Remaining(pool).Amounts)
			}
			draw.TakeFrom(left)
			for number := range draw.All() {
				if left[number].IsNegative() {
					return &OverdrawnError{Claim: ref, Pool: pool.ID, Device: result.Device,
						Resource: "counter " + pool.Counters.Sets[draw.Set] + "/" + pool.Counters.Names[number]}
				}
			}
		}
	}
	return nil
}

// overdrawCapacity judges the shares that the allocation has of devices of one pool.
func overdrawCapacity(ref ClaimRef, usage *PoolUsage, pool *inventory.NodePool, allocation *resourceapi.AllocationResult) error {
	own := make(map[string][]Share) // by device
	for result := range resultsIn(pool.ID, allocation) {
		if result.ShareID == nil {
			continue
		}
		device := pool.Device(result.Device)
		if device == nil {
			continue
		}
		own[result.Device] = append(own[result.Device], Share{Consumed: result.ConsumedCapacity})
		for name := range result.ConsumedCapacity {
			capacity, found := device.Capacity[name]
			if !found {
				continue
			}
			left := amount.Of(capacity.Value)
			for _, shares := range [][]Share{usage.Device(result.Device).Shares, own[result.Device]} {
				for _, share := range shares {
					if consumed, found := share.Consumed[name]; found {
						left = left.Minus(amount.Of(consumed))
					}
				}
			}
			if left.IsNegative() {
				return &OverdrawnError{Claim: ref, Pool: pool.ID, Device: result.Device, Resource: "capacity " + string(name)}
			}
		}
	}
	return nil
}
