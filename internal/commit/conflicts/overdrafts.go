package conflicts

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// overdraftLook is the interval between checks of pools that have changed.
const overdraftLook = time.Second

// overdrafts reports claims that together take more of a counter or a capacity than there is, or use devices without a
// common compatibility group. Each claim, and each pod that uses it, gets one event per overdrawn resource: if a driver
// lowers a capacity that a thousand claims share, that makes a thousand events, not one for each pair of claims.
//
// It checks pools rather than new allocations: a pool may be incomplete at the time of an allocation, and a driver may
// lower a capacity long afterwards.
type overdrafts struct {
	*Reporter
	// open holds the overdrafts of each pool as of the last check.
	open map[inventory.PoolID]map[overdraftKey]*overdraft
	// changed are the pools to check, including those that changed while another replica led.
	changed sets.Set[inventory.PoolID]
}

// An overdraftKey identifies an overdraft within its pool.
type overdraftKey struct {
	cause            allocationlog.Cause
	device, resource string
}

// An overdraft is the state of the reports about one overdraft, by allocation.
type overdraft struct {
	// since is the time when an allocation was first found to be too much.
	since map[uint64]time.Time
	// told are the allocations that were reported, toEvict those of them whose pods still have to be evicted. heard are
	// earlier allocations that suffice; their users were told too.
	told, toEvict, heard sets.Set[uint64]
}

func newOverdrafts(r *Reporter) *overdrafts {
	return &overdrafts{Reporter: r, open: make(map[inventory.PoolID]map[overdraftKey]*overdraft), changed: sets.New[inventory.PoolID]()}
}

func (o *overdrafts) run(ctx context.Context) {
	ticker := time.NewTicker(overdraftLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		o.changed.Insert(o.Order.TakeChanged()...)
		if o.Leadership.Leads() != nil {
			o.forgetUnused() // The leader reports; this process may become the leader.
			continue
		}
		pools := o.changed
		o.changed = sets.New[inventory.PoolID]()
		for pool := range o.open {
			pools.Insert(pool)
		}
		for pool := range pools {
			o.look(ctx, pool)
		}
	}
}

// forgetUnused forgets pools without allocations, so that a replica that never leads does not collect all pools.
func (o *overdrafts) forgetUnused() {
	for pool := range o.changed {
		if !o.Order.Uses(pool) {
			o.changed.Delete(pool)
		}
	}
}

// look checks one pool.
func (o *overdrafts) look(ctx context.Context, pool inventory.PoolID) {
	found, judged := o.Order.Overdrawn(pool)
	if !judged {
		return // The pool will have changed again once it is complete.
	}
	before := o.open[pool]
	delete(o.open, pool)
	if len(found) == 0 {
		return
	}
	after := make(map[overdraftKey]*overdraft, len(found))
	o.open[pool] = after
	for _, f := range found {
		key := overdraftKey{f.Cause, f.Device, f.Resource}
		known := before[key]
		if known == nil {
			known = &overdraft{since: make(map[uint64]time.Time), told: sets.New[uint64](), toEvict: sets.New[uint64](), heard: sets.New[uint64]()}
		}
		after[key] = known
		known.forgetOthers(f)
		o.handle(ctx, f, known)
	}
}

// forgetOthers forgets allocations that are not part of the overdraft (any more).
func (o *overdraft) forgetOthers(found allocationlog.Overdraft) {
	all, lost := sets.New[uint64](), sets.New[uint64]()
	for i, claim := range found.Claims {
		if all.Insert(claim.ID); i >= found.Enough {
			lost.Insert(claim.ID)
		}
	}
	maps.DeleteFunc(o.since, func(id uint64, _ time.Time) bool { return !lost.Has(id) })
	for id := range lost {
		if _, known := o.since[id]; !known {
			o.since[id] = time.Now()
		}
	}
	o.told, o.toEvict, o.heard = o.told.Intersection(lost), o.toEvict.Intersection(lost), o.heard.Intersection(all)
}

// handle reports allocations that have been too much for long enough, and tells the users of the earlier ones too, each
// once. It evicts the pods that must go.
func (o *overdrafts) handle(ctx context.Context, found allocationlog.Overdraft, known *overdraft) {
	grace := o.grace()
	lost := false
	for _, claim := range found.Claims[found.Enough:] {
		if known.told.Has(claim.ID) || time.Since(known.since[claim.ID]) < grace {
			continue
		}
		if !lost {
			klog.FromContext(ctx).Error(nil, found.String(), "driver", found.Pool.Driver, "pool", found.Pool.Name)
		}
		lost = true
		count(Conflicts, found.Pool)
		known.told.Insert(claim.ID)
		o.tell(claim.ClaimRef, found.String())
		if o.Profiles.EvictsOnConflict() {
			known.toEvict.Insert(claim.ID)
		}
	}
	for _, claim := range found.Claims[:found.Enough] {
		if lost && !known.heard.Has(claim.ID) {
			known.heard.Insert(claim.ID)
			o.tell(claim.ClaimRef, found.String())
		}
	}
	for _, claim := range found.Claims[found.Enough:] {
		if known.toEvict.Has(claim.ID) && !o.evictUsers(ctx, claim.ClaimRef, found.Pool) {
			known.toEvict.Delete(claim.ID)
		}
	}
}
