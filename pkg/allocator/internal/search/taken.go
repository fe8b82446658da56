package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// takenDevices are the devices chosen so far, by claim and pool. Devices that can be
// shared are not among them.
type takenDevices struct {
	pools int
	// byAny has a set for each pool, byClaim one for each claim and pool. With one
	// claim both are the same.
	byAny, byClaim []bitset.Set
}

// reset makes all sets anew, in the memory of the search.
func (t *takenDevices) reset(claims int, pools []*inventory.NodePool, m *memory) {
	rows := 1
	if claims > 1 {
		rows += claims
	}
	m.sets = m.sets[:0]
	for range rows {
		for _, pool := range pools {
			m.sets = append(m.sets, m.bits.New(len(pool.Devices)))
		}
	}
	t.pools, t.byAny, t.byClaim = len(pools), m.sets[:len(pools)], m.sets
	if claims > 1 {
		t.byClaim = m.sets[len(pools):]
	}
}

// of returns the devices of a pool that a claim has taken.
func (t *takenDevices) of(claim, pool int) bitset.Set { return t.byClaim[claim*t.pools+pool] }

// forRequest reports whether a device cannot be chosen because it was already:
// by any claim, or, with admin access, by the same claim.
func (t *takenDevices) forRequest(r *task.Request, at location) bool {
	return t.against(r, at.pool).Has(at.device)
}

// against returns the devices of a pool that a request cannot have any more.
func (t *takenDevices) against(r *task.Request, pool int) bitset.Set {
	if r.Admin {
		return t.of(r.Claim.Index, pool)
	}
	return t.byAny[pool]
}

func (t *takenDevices) add(claim int, at location) {
	t.of(claim, at.pool).Add(at.device)
	t.byAny[at.pool].Add(at.device)
}

// remove undoes add. With admin access another claim may have the device as well.
func (t *takenDevices) remove(claim int, at location) {
	t.of(claim, at.pool).Remove(at.device)
	for other := at.pool; other < len(t.byClaim); other += t.pools {
		if t.byClaim[other].Has(at.device) {
			return
		}
	}
	t.byAny[at.pool].Remove(at.device)
}

// bySameClaims reports whether two devices were taken by the same claims.
func (t *takenDevices) bySameClaims(a, b location) bool {
	for row := 0; row < len(t.byClaim); row += t.pools {
		if t.byClaim[row+a.pool].Has(a.device) != t.byClaim[row+b.pool].Has(b.device) {
			return false
		}
	}
	return true
}
