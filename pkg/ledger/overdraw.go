package ledger

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Pools returns a pool with all its devices, on all nodes. It returns nil for a pool that is not
// published.
type Pools func(inventory.PoolID) *inventory.NodePool

// refused returns the error for a claim that cannot have a device that was planned for it.
func refused(ref ClaimRef, pool inventory.PoolID, device, why string) error {
	return fmt.Errorf("claim %s was to get device %s/%s but %s; looking for other devices", ref, pool, device, why)
}

// tooLittle is for a "capacity NAME" of the device (KEP-5075), or a "counter SET/NAME" of the pool (KEP-4815).
func tooLittle(resource string) string { return "too little is left of " + resource + " by now" }

// overdraw returns an error if an unallocated claim cannot have the allocation because of the
// counters, capacities or compatibility groups that are left. r is the claim's record, or nil: its
// in-flight allocation would be replaced. Pools and devices that are not published (any more) are
// not judged, because it is not known what is left of them.
//
// A scheduling cycle that plans and reserves without interruption never gets here with too much.
// But the pods of a group may be planned from one view and put in flight one after the other, and
// an event may come between a plan and its reservation.
func (l *Ledger) overdraw(ref ClaimRef, r *record, allocation *resourceapi.AllocationResult, by judgement) error {
	if by.pools == nil || !by.again && r != nil && r.inFlight == allocation {
		return nil
	}
	for _, id := range poolsOf(allocation) {
		pool := by.pools(id)
		if pool == nil {
			continue
		}
		usage := l.OfKey(pool.Key)
		if r != nil && r.inFlight != nil {
			usage = usage.change(id, ref, r.inFlight, nil)
		}
		limits := Limits{pool, usage.HasCompatibilityGroups(pool)}
		j := judge{ref: ref, pool: pool, limits: limits, usage: usage, rooms: make(map[Limit]*Room)}
		if err := j.check(allocation); err != nil {
			return err
		}
	}
	return nil
}

// judge finds out whether an allocation fits in beside the usage of a pool.
type judge struct {
	ref    ClaimRef
	pool   *inventory.NodePool
	limits Limits
	usage  *PoolUsage
	// rooms holds the limits looked at so far, with the room left for the rest of the allocation.
	rooms map[Limit]*Room
}

func (j *judge) check(allocation *resourceapi.AllocationResult) error {
	drawn := make(map[string]bool)
	for result := range usedOf(j.pool.ID, allocation) {
		// Another share of a device in use consumes no more counters.
		if !drawn[result.Device] && !j.usage.Uses(result.Device) {
			drawn[result.Device] = true
			if err := j.checkKnown(result.Device); err != nil {
				return err
			}
			for limit, need := range j.limits.Drawn(result.Device) {
				if !j.room(limit).Take(need) {
					return j.refuse(limit, result.Device)
				}
			}
		}
		if err := j.checkShare(result); err != nil {
			return err
		}
	}
	return nil
}

// checkKnown returns an error if it is not known what is left of the counters of a device.
func (j *judge) checkKnown(device string) error {
	if len(j.pool.Draws(device)) == 0 {
		return nil
	}
	if unknown := j.usage.Remaining(j.pool).Unknown; len(unknown) > 0 {
		return refused(j.ref, j.pool.ID, device, "the rest of the counters that it draws on is unknown: "+
			"device "+unknown[0]+" of that pool is in use and its driver does not publish it any more")
	}
	return nil
}

// room returns the room left of a counter, or of the compatibility groups of a counter set.
func (j *judge) room(limit Limit) *Room {
	if room := j.rooms[limit]; room != nil {
		return room
	}
	room := j.limits.Room(limit)
	if limit.Kind == CounterLimit {
		room.left = j.usage.Remaining(j.pool).Amounts[limit.number]
	} else {
		room.together = j.usage.compatibilityGroupsIn(j.pool, limit.number)
	}
	j.rooms[limit] = &room
	return &room
}

func (j *judge) refuse(limit Limit, device string) error {
	why := tooLittle("counter " + j.limits.Name(limit))
	if limit.Kind == CompatibilityLimit {
		why = "it has no compatibility group in common with the devices that draw from counter set " + j.limits.Name(limit) + " by now"
	}
	return refused(j.ref, j.pool.ID, device, why)
}

// checkShare checks a share against the capacities of its device.
func (j *judge) checkShare(result *resourceapi.DeviceRequestAllocationResult) error {
	device := j.pool.Device(result.Device)
	if result.ShareID == nil || device == nil {
		return nil
	}
	for name, consumed := range result.ConsumedCapacity {
		published, found := CapacityOf(device, name)
		if !found {
			continue
		}
		room := j.rooms[published.Limit]
		if room == nil {
			room = &published
			for _, share := range j.usage.Device(result.Device).Shares {
				if consumed, found := share.Consumed[name]; found {
					room.Take(Need{Amount: quantity.Of(consumed)})
				}
			}
			j.rooms[published.Limit] = room
		}
		if !room.Take(Need{Amount: quantity.Of(consumed)}) {
			return refused(j.ref, j.pool.ID, result.Device, tooLittle("capacity "+string(name)))
		}
	}
	return nil
}

// compatibilityGroupsIn returns the compatibility groups in common to all devices in use that
// consume from a counter set of a pool. It considers the devices on all nodes, in their published
// and their former versions.
func (u *PoolUsage) compatibilityGroupsIn(pool *inventory.NodePool, set int) (groups inventory.CompatibilityGroups) {
	whole := pool.Whole()
	for _, device := range u.Withdrawn(pool) {
		for _, consumption := range device.Of {
			if consumption.CounterSet == whole.Counters.Sets[set] {
				groups = groups.Force(consumption.CompatibilityGroups)
			}
		}
	}
	for _, position := range whole.Drawing(set) {
		device := &whole.Devices[position]
		if !u.Uses(device.Name) {
			continue
		}
		for i, draw := range whole.Counters.Draws(position) {
			if draw.Set == set {
				groups = groups.Force(device.ConsumesCounters[i].CompatibilityGroups)
			}
		}
	}
	return groups
}

// held returns an error if another claim uses a device that the allocation needs exclusively, holds
// exclusively a device that it wants to share, or has the same share ID: drivers and other
// schedulers tell shares of a device apart by their ID (KEP-5075).
func (l *Ledger) held(ref ClaimRef, allocation *resourceapi.AllocationResult) error {
	for result := range Used(allocation) {
		usage := l.Pool(PoolOf(result)).Device(result.Device)
		holders := usage.Holders
		for _, share := range usage.Shares {
			if result.ShareID == nil || *result.ShareID == share.ID {
				holders = append(holders[:len(holders):len(holders)], share.Holder)
			}
		}
		for _, holder := range holders {
			if holder.UID == ref.UID {
				continue
			}
			name := "a claim of another namespace" // The users of this claim must not learn its name.
			if holder.Namespace == ref.Namespace {
				name = "claim " + holder.String()
			}
			return refused(ref, PoolOf(result), result.Device, name+" holds it by now")
		}
	}
	return nil
}
