package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// takenDevices are the devices chosen so far, by claim and pool, without shareable devices.
type takenDevices struct {
	pools int
	// byAny holds a set for each pool, byClaim one for each claim and pool. They are the same unless
	// tellsClaimsApart.
	byAny, byClaim []bitset.Set
	// free is set if admin access takes nothing: byAny then excludes it.
	free bool
}

// tellsClaimsApart reports whether it matters which claim took a device.
func tellsClaimsApart(t *task.Task) bool { return len(t.Claims()) > 1 || t.TakesNothing() }

// reset creates empty sets, in the memory of the search.
func (t *takenDevices) reset(of *task.Task, pools []*inventory.NodePool, m *memory) {
	rows, apart := 1, tellsClaimsApart(of)
	if apart {
		rows += len(of.Claims())
	}
	t.free = of.TakesNothing()
	m.sets = m.sets[:0]
	for range rows {
		for _, pool := range pools {
			m.sets = append(m.sets, m.bits.New(len(pool.Devices)))
		}
	}
	t.pools, t.byAny, t.byClaim = len(pools), m.sets[:len(pools)], m.sets
	if apart {
		t.byClaim = m.sets[len(pools):]
	}
}

// of returns the devices of a pool that a claim has taken.
func (t *takenDevices) of(claim, pool int) bitset.Set { return t.byClaim[claim*t.pools+pool] }

// forRequest reports whether a device was taken already: by the same claim, or by any claim unless one of the
// two has admin access. In upstream, admin access excludes others.
func (t *takenDevices) forRequest(r *task.Request, at location) bool {
	return t.against(r, at.pool).Has(at.device) || t.free && t.of(r.Claim.Index, at.pool).Has(at.device)
}

// against returns the devices of a pool that a request cannot have any more. Without admin access, it does
// not contain devices that the same claim took with admin access, see forRequest.
func (t *takenDevices) against(r *task.Request, pool int) bitset.Set {
	if r.Admin {
		return t.of(r.Claim.Index, pool)
	}
	return t.byAny[pool]
}

func (t *takenDevices) add(r *task.Request, at location) {
	t.of(r.Claim.Index, at.pool).Add(at.device)
	if !r.TakesNothing {
		t.byAny[at.pool].Add(at.device)
	}
}

// remove reverses add. In upstream's mode, another claim may have the device as well, for admin access.
func (t *takenDevices) remove(r *task.Request, at location) {
	t.of(r.Claim.Index, at.pool).Remove(at.device)
	if r.TakesNothing {
		return
	}
	for other := at.pool; other < len(t.byClaim) && !t.free; other += t.pools {
		if t.byClaim[other].Has(at.device) {
			return
		}
	}
	t.byAny[at.pool].Remove(at.device)
}

// bySameClaims reports whether two devices were taken by the same claims, in the same way.
func (t *takenDevices) bySameClaims(a, b location) bool {
	if t.free && t.byAny[a.pool].Has(a.device) != t.byAny[b.pool].Has(b.device) {
		return false
	}
	for row := 0; row < len(t.byClaim); row += t.pools {
		if t.byClaim[row+a.pool].Has(a.device) != t.byClaim[row+b.pool].Has(b.device) {
			return false
		}
	}
	return true
}
