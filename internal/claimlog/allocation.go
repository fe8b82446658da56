package claimlog

import (
	"slices"
	"time"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// allocation is what is kept of an allocated claim. There are as many as claims in the
// cluster, so strings that many of them have are kept once.
type allocation struct {
	ref ledger.ClaimRef
	// seen is the resourceVersion of the claim's newest known state, 0 if it is not a
	// number.
	seen uint64
	// written is when the allocation was made.
	written Span
	// id counts allocations in the order in which this process heard of them, and those of
	// a list in that of their claims' versions. So of two that are known to be one after the
	// other, the later one has the higher number.
	id uint64
	// arrived is when it was heard of, or, of those in the first list, what the server has
	// recorded.
	arrived time.Time
	// foreign is true if no instance of ours wrote the allocation; listed, if the first list
	// had it, so that it may be of any time before.
	foreign, listed bool
	// recorded is set if the server says who wrote it.
	recorded bool
	// pod is the only one for which the claim was reserved in the write that allocated it, "" if that
	// was not seen, or there is none.
	pod  types.UID
	uses []use
}

// witness takes over what only the write that allocated a claim tells.
func (a *allocation) witness(claim *resourceapi.ResourceClaim) {
	if reserved := claim.Status.ReservedFor; len(reserved) == 1 && reserved[0].APIGroup == "" && reserved[0].Resource == "pods" {
		a.pod = reserved[0].UID
	}
}

// use is a device, or a share of one, that a claim has. Access for administrators uses
// nothing (KEP-5018).
type use struct {
	pool   inventory.PoolKey
	device deviceName
	share  *share // nil: the claim has the device for itself
}

type deviceName = unique.Handle[string]

// share is a part of a device (KEP-5075).
type share struct {
	id       types.UID
	consumed []consumption
}

type consumption struct {
	capacity resourceapi.QualifiedName
	amount   amount.Amount
}

// newAllocation returns what is to be kept of a claim, nil if it has no allocation. One
// that only has admin access (KEP-5018) uses no device.
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

// pools yields the pools of which the claim has something, each once.
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

// usesIn yields what the claim has of a pool.
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
	for name, quantity := range result.ConsumedCapacity {
		s.consumed = append(s.consumed, consumption{name, amount.Of(quantity)})
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
