package claimlog

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// index finds allocations by claim and by device. It is not safe for concurrent use.
//
// Invariant: pools has exactly the uses of the allocations in claims; there are no empty
// maps or lists in it.
type index struct {
	claims map[types.UID]*allocation
	pools  map[inventory.PoolKey]poolUses
}

// poolUses are the devices in use of one pool.
type poolUses map[deviceName][]holding

// holding is one use of a device, seen from the device.
type holding struct {
	by    *allocation
	share *share
}

func newIndex() index {
	return index{claims: make(map[types.UID]*allocation), pools: make(map[inventory.PoolKey]poolUses)}
}

// add puts an allocation in; there must be none of that claim.
func (x *index) add(a *allocation) {
	x.claims[a.ref.UID] = a
	for _, u := range a.uses {
		uses := x.pools[u.pool]
		if uses == nil {
			uses = make(poolUses)
			x.pools[u.pool] = uses
		}
		uses[u.device] = append(uses[u.device], holding{a, u.share})
	}
}

// remove takes out what is known of a claim, if anything is.
func (x *index) remove(uid types.UID) {
	a := x.claims[uid]
	if a == nil {
		return
	}
	delete(x.claims, uid)
	for _, u := range a.uses {
		uses := x.pools[u.pool]
		left := slices.DeleteFunc(uses[u.device], func(h holding) bool { return h.by == a })
		if len(left) > 0 {
			uses[u.device] = left
			continue
		}
		delete(uses, u.device)
		if len(uses) == 0 {
			delete(x.pools, u.pool)
		}
	}
}
