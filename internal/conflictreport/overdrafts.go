package conflictreport

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// overdraftLook is the pause between two looks at pools that have changed.
const overdraftLook = time.Second

// overdrafts reports claims that together have more of a counter or a capacity than there is, or
// devices without a compatibility group in common. Each claim, and each pod that uses it, gets one
// event for each thing of which there is too little: if a driver lowers a capacity that a thousand
// claims share, that is a thousand events and not one for each two of them.
//
// It looks at pools, and not at each new allocation: a pool may have been incomplete then, and
// a driver may lower what there is long afterwards.
type overdrafts struct {
	*Reporter
	// open are the overdrafts of each pool that were there when it was looked at last.
	open map[inventory.PoolID]map[overdraftKey]*overdraft
	// changed are the pools to look at, those included that changed while another one led.
	changed sets.Set[inventory.PoolID]
}

// overdraftKey names an overdraft within its pool.
type overdraftKey struct {
	cause            claimlog.Cause
	device, resource string
}

// overdraft is what was done about one, by allocation.
type overdraft struct {
	// since is when an allocation was found to be one too many.
	since map[uint64]time.Time
	// told are those of which everybody concerned has been told, toEvict those of them whose
	// pods have to be evicted yet. heard are those that were first and have been told of it.
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
		if o.Leads() != nil {
			o.forgetUnused() // Reports are the leader's; this may be the next one.
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

// forgetUnused forgets pools in which nothing is allocated, so that a replica that never
// leads does not gather all that ever were.
func (o *overdrafts) forgetUnused() {
	for pool := range o.changed {
		if !o.Order.Uses(pool) {
			o.changed.Delete(pool)
		}
	}
}

// look brings what is known of a pool up to date.
func (o *overdrafts) look(ctx context.Context, pool inventory.PoolID) {
	found, judged := o.Order.Overdrawn(pool)
	if !judged {
		return // It will have changed when it is complete.
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

// forgetOthers forgets allocations that have no part in it (any more).
func (o *overdraft) forgetOthers(found claimlog.Overdraft) {
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

// handle tells of those for whom there has been too little for long enough, and with them of
// those that were first, each once. It evicts whom it has to.
func (o *overdrafts) handle(ctx context.Context, found claimlog.Overdraft, known *overdraft) {
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
		if o.Evicts() {
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
