package allocationlog

import (
	"slices"
	"time"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// allocation is the stored part of an allocated claim. There is one for each allocated claim of the
// cluster, so strings that many of them share are stored once.
type allocation struct {
	ref ledger.ClaimRef
	// seen is the resourceVersion of the claim's newest known state, 0 if it is not a number.
	seen uint64
	// written is the range of versions that contains the write of the allocation.
	written Span
	// id numbers allocations in the order in which they arrived, and those of one list in the order
	// of their claims' versions. So of two allocations with a known order, the later one has the
	// higher number.
	id uint64
	// arrived is the time of arrival or, for allocations in the first list, the time that the
	// server recorded.
	arrived time.Time
	// foreign is true if another program wrote the allocation, not an instance of this scheduler.
	// listed is true if the first list contained it, so that it may be of any earlier time.
	foreign, listed bool
	// recorded is set if the server recorded the author of the write.
	recorded bool
	// pod is the only pod that the claim was reserved for in the write that allocated it. It is ""
	// if that write was not seen, or if it reserved the claim for no pod or for other consumers.
	pod  types.UID
	uses []use
}

// witness stores what only the write that allocated the claim shows.
func (a *allocation) witness(claim *resourceapi.ResourceClaim) {
	if reserved := claim.Status.ReservedFor; len(reserved) == 1 && reserved[0].APIGroup == "" && reserved[0].Resource == "pods" {
		a.pod = reserved[0].UID
	}
}

// use is a claim's use of a device or of a share of a device. Admin access uses nothing (KEP-5018).
type use struct {
	pool   inventory.PoolKey
	device deviceName
	share  *share // nil if the claim holds the device exclusively
}

type deviceName = unique.Handle[string]

// share is a part of a device (KEP-5075).
type share struct {
	id       types.UID
	consumed []consumption
}

type consumption struct {
	capacity resourceapi.QualifiedName
	amount   quantity.Amount
}

// newAllocation returns the stored part of a claim, nil if it has no allocation. An allocation with
// only admin access (KEP-5018) uses no device.
func newAllocation(claim *resourceapi.ResourceClaim, seen uint64, written Span) *allocation {
	if claim.Status.Allocation == nil {
		return nil
	}
	var uses []use
	for result := range ledger.Used(claim.Status.Allocation) {
		uses = append(uses, use{
			pool:   inventory.KeyOf(ledger.PoolOf(result)),
			device: unique.Make(result.Device),
			share:  newShare(result),
		})
	}
	a := &allocation{ref: ledger.RefTo(claim), seen: seen, written: written, uses: slices.Clip(uses)}
	a.ref.Namespace = unique.Make(a.ref.Namespace).Value()
	return a
}

// pools yields the pools of the claim's devices, each once.
func (a *allocation) pools() func(func(inventory.PoolKey) bool) {
	return func(yield func(inventory.PoolKey) bool) {
		for i := range a.uses {
			key := a.uses[i].pool
			known := slices.ContainsFunc(a.uses[:i], func(u use) bool { return u.pool == key })
			if !known && !yield(key) {
				return
			}
		}
	}
}

// usesIn yields the claim's uses of a pool.
func (a *allocation) usesIn(pool inventory.PoolKey) func(func(*use) bool) {
	return func(yield func(*use) bool) {
		for i := range a.uses {
			if a.uses[i].pool == pool && !yield(&a.uses[i]) {
				return
			}
		}
	}
}

func newShare(result *resourceapi.DeviceRequestAllocationResult) *share {
	if result.ShareID == nil {
		return nil
	}
	s := &share{id: *result.ShareID}
	for name, amount := range result.ConsumedCapacity {
		s.consumed = append(s.consumed, consumption{name, quantity.Of(amount)})
	}
	return s
}

// isOf reports whether the claim still uses the same devices and shares. Most updates
// of a claim do not touch its allocation, and must cost nothing.
func (a *allocation) isOf(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	n := 0
	for result := range ledger.Used(claim.Status.Allocation) {
		if n == len(a.uses) || !a.uses[n].isOf(result) {
			return false
		}
		n++
	}
	return n == len(a.uses)
}

func (u *use) isOf(result *resourceapi.DeviceRequestAllocationResult) bool {
	if (u.share == nil) != (result.ShareID == nil) || u.share != nil && u.share.id != *result.ShareID {
		return false
	}
	return u.device.Value() == result.Device && u.pool.Value() == ledger.PoolOf(result)
}
