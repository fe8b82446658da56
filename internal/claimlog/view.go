package claimlog

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// publishedWithin is how much later than an allocation its device may show up in a slice:
// who allocated it may have heard of the device before we do.
const publishedWithin = 5 * time.Second

// view is what counters, capacities and compatibility groups of a pool are judged by: the
// pool as it is if it is complete, else its last complete state.
type view struct {
	id inventory.PoolID
	// pool is nil if nothing is published; if it is not complete, there is no complete
	// state to judge by.
	pool *inventory.NodePool
	// at is when the pool was like that: now, or when it ceased to be complete.
	at time.Time
}

// lastState is the last state of a pool that is not complete in which all slices were there.
type lastState struct {
	// pool returns that state. It may have been invalid: that takes longer to find out, and is
	// left to whoever needs it.
	pool  func() *inventory.NodePool
	until time.Time
}

// PoolPublished is called when a pool changes, with the version before and the one after
// (nil if there is none). It is quick, and may be called under a lock that ledger.Pools does not
// need.
func (o *Order) PoolPublished(before, after *inventory.Pool) {
	known := before
	if known == nil {
		known = after
	}
	if known == nil {
		return
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	key := known.Key()
	used := o.index.pools[key] != nil
	switch {
	case isPublished(after), after == nil && !used:
		delete(o.last, key)
	case isPublished(before):
		o.last[key] = lastState{before.Later(), o.clock.Now()}
	}
	if used {
		o.changed[key] = struct{}{}
	}
}

func isPublished(pool *inventory.Pool) bool { return pool != nil && pool.IsPublished() }

// viewOf returns what to judge a pool by.
func (o *Order) viewOf(key inventory.PoolKey) view {
	v := view{id: key.Value(), at: o.clock.Now()}
	v.pool = o.pools(v.id)
	if v.pool != nil && v.pool.State == inventory.Complete {
		return v
	}
	if last, found := o.last[key]; found {
		if pool := last.pool(); pool.State == inventory.Complete {
			v.pool, v.at = pool, last.until
		}
	}
	return v
}

// isComplete reports whether everything is known that there was in the pool at that time.
func (v *view) isComplete() bool { return v.pool != nil && v.pool.State == inventory.Complete }

// device returns a published device, also of a pool that is not complete.
func (v *view) device(name string) *inventory.Device {
	switch {
	case v.pool == nil:
		return nil
	case v.isComplete():
		return v.pool.Device(name)
	}
	if i := slices.IndexFunc(v.pool.Devices, func(d inventory.Device) bool { return d.Name == name }); i >= 0 {
		return &v.pool.Devices[i]
	}
	return nil
}

// mayAppear reports whether a device that is not in the view may get published yet, or is in
// the state after the view's: it was allocated so late. Of one that was allocated before
// that, its driver has withdrawn it.
func (v *view) mayAppear(device deviceName, holder *allocation) bool {
	return v.device(device.Value()) == nil && v.at.Sub(holder.arrived) < publishedWithin
}

// Undecided returns why it cannot be judged (yet) whether the claim has to yield, nil if
// it can: it has, beside others, something of a pool of which no complete state is known or
// of which it or claims that are not later have devices that are not known. What it says ends when drivers
// have published what they began to, so it is worth to wait and ask again.
func (o *Order) Undecided(claim types.UID) error {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	own := o.index.claims[claim]
	if own == nil {
		return nil
	}
	for key := range own.pools() {
		if !o.index.othersUse(key, own) {
			continue
		}
		if v := o.viewOf(key); v.pool == nil || len(v.pool.Off) == 0 { // What is off is not judged.
			if err := o.index.undecided(own, key, v); err != nil {
				return fmt.Errorf("it is not known whether claim %s and others were allocated more of pool %s than there is: %w", own.ref, v.id, err)
			}
		}
	}
	return nil
}

// undecided is Undecided for one pool.
func (x *index) undecided(own *allocation, key inventory.PoolKey, v view) error {
	draws := false
	for u := range own.usesIn(key) {
		published := v.device(u.device.Value())
		switch {
		case v.mayAppear(u.device, own), published == nil && v.pool != nil && !v.isComplete():
			return v.lacks(u.device)
		case published != nil:
			draws = draws || len(published.ConsumesCounters) > 0
		}
	}
	switch {
	case !draws:
		return nil
	case !v.isComplete():
		return fmt.Errorf("the pool is not complete (%s), and was not since the scheduler was started; its driver has to publish all slices", v.pool.Reason)
	}
	for device, holdings := range x.pools[key] {
		for _, h := range holdings {
			if relationOf(h.by.written, own.written) != Later && v.mayAppear(device, h.by) {
				return v.lacks(device)
			}
		}
	}
	return nil
}

// lacks says that a device is not known.
func (v *view) lacks(device deviceName) error {
	found := "none of its slices is"
	if v.pool != nil {
		found = "it is " + v.pool.State.String()
		if v.pool.Reason != "" {
			found += " (" + v.pool.Reason + ")"
		}
	}
	return fmt.Errorf("device %s is not published, as far as the pool is known: %s; its driver has to publish all slices", device.Value(), found)
}
