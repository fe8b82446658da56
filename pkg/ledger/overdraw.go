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

// OverdrawnError reports that a plan needs more of a counter or capacity than is left by now.
type OverdrawnError struct {
	Claim  ClaimRef // claim that wants it
	Pool   inventory.PoolID
	Device string
	// Resource is "capacity NAME" of the device (KEP-5075), or "counter SET/NAME" of the
	// pool (KEP-4815).
	Resource string
}

func (e *OverdrawnError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s but too little is left of %s by now; looking for other devices",
		e.Claim, e.Pool, e.Device, e.Resource)
}

// IncompatibleError reports that the compatibility groups of devices in use rule out a device that
// a plan needs.
type IncompatibleError struct {
	Claim      ClaimRef // claim that wants the device
	Pool       inventory.PoolID
	Device     string
	CounterSet string
}

func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s but it has no compatibility group in common with the devices "+
		"that draw from counter set %s by now; looking for other devices", e.Claim, e.Pool, e.Device, e.CounterSet)
}

// UnknownDrawError reports that a device cannot be allocated because it is not known what is left
// of its counters.
type UnknownDrawError struct {
	Claim     ClaimRef // claim that wants the device
	Pool      inventory.PoolID
	Device    string
	Withdrawn string // a device in use that is no longer published
}

func (e *UnknownDrawError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s but the rest of the counters that it draws on is unknown: "+
		"device %s of that pool is in use and its driver does not publish it any more; looking for other devices", e.Claim, e.Pool, e.Device, e.Withdrawn)
}

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
					return j.tooLittle(limit, result.Device)
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
		return &UnknownDrawError{Claim: j.ref, Pool: j.pool.ID, Device: device, Withdrawn: unknown[0]}
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

func (j *judge) tooLittle(limit Limit, device string) error {
	if limit.Kind == CompatibilityLimit {
		return &IncompatibleError{Claim: j.ref, Pool: j.pool.ID, Device: device, CounterSet: j.limits.Name(limit)}
	}
	return &OverdrawnError{Claim: j.ref, Pool: j.pool.ID, Device: device, Resource: "counter " + j.limits.Name(limit)}
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
			return &OverdrawnError{Claim: j.ref, Pool: j.pool.ID, Device: result.Device, Resource: "capacity " + string(name)}
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

// HeldError reports that another claim holds a device that a plan needs.
type HeldError struct {
	Claim  ClaimRef // claim that wants the device
	Pool   inventory.PoolID
	Device string
	Holder ClaimRef // claim that has it
}

func (e *HeldError) Error() string {
	holder := "a claim of another namespace" // The users of this claim must not learn its name.
	if e.Holder.Namespace == e.Claim.Namespace {
		holder = "claim " + e.Holder.String()
	}
	return fmt.Sprintf("claim %s was to get device %s/%s but %s holds it by now; looking for other devices",
		e.Claim, e.Pool, e.Device, holder)
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
			if holder.UID != ref.UID {
				return &HeldError{Claim: ref, Pool: PoolOf(result), Device: result.Device, Holder: holder}
			}
		}
	}
	return nil
}
