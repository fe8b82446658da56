package ledger

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// ErrChanged says that more is known of a claim by now than what was decided on. It has to be
// looked at again.
var ErrChanged = errors.New("the state of the claim that is known has changed")

// UnpublishedError says that an allocation cannot be judged, because a device of it is not known
// (yet), or not all of its pool: of that one cannot tell what is left of its counters.
type UnpublishedError struct {
	Claim  ClaimRef // who wants the device
	Pool   inventory.PoolID
	Device string
	Found  string // what is published instead
}

func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s of pool %s of driver %s %s", e.Claim, e.Device, e.Pool.Name, e.Pool.Driver, e.Found)
}

// ImpossibleError says that nobody can use a device as an allocation says, whatever is left of it.
type ImpossibleError struct {
	Claim  ClaimRef // who wants the device
	Pool   inventory.PoolID
	Device string
	Why    string
}

func (e *ImpossibleError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s %s; see what has allocated it", e.Claim, e.Pool, e.Device, e.Why)
}

// AddReviewed is AddInFlight for an allocation that somebody else has made, and of which nothing
// but itself is known. as is the state of its claim that was looked at before; if that has changed,
// it fails with ErrChanged. All devices have to be published, in pools that are complete, at the
// moment in which everything else is judged; otherwise it fails with an UnpublishedError. It fails with
// an ImpossibleError if the allocation is none that a scheduler makes.
func (l *Ledger) AddReviewed(ref ClaimRef, user types.UID, allocation *resourceapi.AllocationResult, as ClaimState) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.state(ref.UID) != as {
		return ErrChanged
	}
	pools, err := l.published(ref, allocation)
	if err != nil {
		return err
	}
	if err := possible(ref, pools, allocation); err != nil {
		return err
	}
	// What is in flight already was put there by whoever has planned it, and need not have been
	// judged: its pool may not have been complete then.
	return l.add(ref, user, allocation, judgement{pools: pools, again: true})
}

// published returns the pools of an allocation, of which each device exists.
func (l *Ledger) published(ref ClaimRef, allocation *resourceapi.AllocationResult) (Pools, error) {
	found := make(map[inventory.PoolID]*inventory.NodePool)
	for _, id := range poolsOf(allocation) {
		found[id] = l.Pools(id)
	}
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		pool := found[PoolOf(result)]
		missing := ""
		switch {
		case pool == nil:
			missing = "but the driver publishes no such pool"
		case pool.State != inventory.Complete:
			missing = fmt.Sprintf("which is %s: %s", pool.State, pool.Reason)
		case pool.Device(result.Device) == nil:
			missing = "but the driver does not publish it there"
		default:
			continue
		}
		return nil, &UnpublishedError{Claim: ref, Pool: PoolOf(result), Device: result.Device, Found: missing}
	}
	return func(id inventory.PoolID) *inventory.NodePool { return found[id] }, nil
}

// possible returns an error if the allocation contradicts itself, or what a driver permits: nobody but a
// scheduler has looked at that before, because it takes the slices.
func possible(ref ClaimRef, pools Pools, allocation *resourceapi.AllocationResult) error {
	type use struct {
		inventory.PoolID
		device string
	}
	shared := make(map[use]bool) // the devices so far, and whether as shares
	for result := range Used(allocation) {
		id := PoolOf(result)
		why := notShareable(pools(id).Device(result.Device), result)
		before, again := shared[use{id, result.Device}]
		if again && (!before || result.ShareID == nil) {
			why = "but has it for another request already and not a share of it each"
		}
		if why != "" {
			return &ImpossibleError{Claim: ref, Pool: id, Device: result.Device, Why: why}
		}
		shared[use{id, result.Device}] = result.ShareID != nil
	}
	return nil
}

// notShareable returns why there is no such share of a device, "" if there is, or if it is for one
// claim alone. A share consumes something of each capacity of the device (KEP-5075); if one is left
// out, nobody knows how much.
func notShareable(device *inventory.Device, result *resourceapi.DeviceRequestAllocationResult) string {
	if result.ShareID == nil {
		return ""
	}
	if !ptr.Deref(device.AllowMultipleAllocations, false) {
		return "and a share of it but its driver does not allow multiple allocations of that device"
	}
	for name := range device.Capacity {
		if _, found := result.ConsumedCapacity[name]; !found {
			return fmt.Sprintf("and a share of it that does not say how much it consumes of capacity %s", name)
		}
	}
	// Also of capacities that the device does not have: it may get them.
	for name, consumed := range result.ConsumedCapacity {
		if consumed.Sign() < 0 {
			return fmt.Sprintf("and a share of it that consumes %s of capacity %s which is less than nothing", consumed.String(), name)
		}
	}
	return ""
}
