package ledger

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// ErrChanged reports that the known state of a claim changed since a decision about it. The caller
// must look at the claim again.
var ErrChanged = errors.New("the state of the claim that is known has changed")

// UnpublishedError reports that an allocation cannot be judged, because one of its devices is not
// known (yet) or its pool is incomplete: it is then not known what is left of the counters.
type UnpublishedError struct {
	Claim  ClaimRef // claim that wants the device
	Pool   inventory.PoolID
	Device string
	Found  string // what is published instead, as the end of a sentence
}

func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s of pool %s of driver %s %s", e.Claim, e.Device, e.Pool.Name, e.Pool.Driver, e.Found)
}

// AddReviewed is AddInFlight for an allocation that another program made, with no knowledge but the
// allocation itself. as is the state of the claim that the caller looked at; AddReviewed fails with
// ErrChanged if the state has changed. At the moment of judgement all devices must be published in
// complete pools; otherwise it fails with an UnpublishedError. It also fails if no scheduler makes such
// an allocation.
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
	// An allocation already in flight was put there by the planner and may not have been judged,
	// because its pool may have been incomplete at that time.
	return l.add(ref, user, allocation, judgement{pools: pools, again: true})
}

// published returns the pools of an allocation, or an error if a device is not published in a
// complete pool.
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

// possible returns an error if the allocation contradicts itself or the driver's rules. A scheduler
// that takes devices from the slices respects both; other writers need not.
func possible(ref ClaimRef, pools Pools, allocation *resourceapi.AllocationResult) error {
	type use struct {
		inventory.PoolID
		device string
	}
	shared := make(map[use]bool) // the devices so far, and whether they are shared
	for result := range Used(allocation) {
		id := PoolOf(result)
		why := notShareable(pools(id).Device(result.Device), result)
		before, again := shared[use{id, result.Device}]
		if again && (!before || result.ShareID == nil) {
			why = "but has it for another request already and not a share of it each"
		}
		if why != "" {
			return fmt.Errorf("claim %s was to get device %s/%s %s; see what has allocated it", ref, id, result.Device, why)
		}
		shared[use{id, result.Device}] = result.ShareID != nil
	}
	return nil
}

// notShareable returns why the driver does not permit a share of a device, "" if it does or if the
// result is no share. A share must consume some of each capacity of the device (KEP-5075): if one
// is left out, the amount is unknown.
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
	// Check capacities that the device does not have as well: the driver may add them.
	for name, consumed := range result.ConsumedCapacity {
		if consumed.Sign() < 0 {
			return fmt.Sprintf("and a share of it that consumes %s of capacity %s which is less than nothing", consumed.String(), name)
		}
	}
	return ""
}
