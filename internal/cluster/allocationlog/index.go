package allocationlog

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

// poolUses maps the devices in use of one pool to their uses.
type poolUses map[deviceName][]holding

// holding is the use of a device by an allocation.
type holding struct {
	by    *allocation
	share *share
}

func newIndex() index {
	return index{claims: make(map[types.UID]*allocation), pools: make(map[inventory.PoolKey]poolUses)}
}

// add adds an allocation; the claim must have none in the index.
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

// remove removes the allocation of a claim, if there is one.
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
