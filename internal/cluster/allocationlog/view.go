package allocationlog

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// publishedWithin limits how much later than an allocation its device may appear in a slice: the
// scheduler that allocated it may have heard of the device earlier than this one.
const publishedWithin = 5 * time.Second

// view is the state of a pool by which counters, capacities and compatibility groups are judged:
// the current state if it is complete, otherwise the last complete one.
type view struct {
	id inventory.PoolID
	// pool is nil if the pool is not published. If it is not complete, no complete state is known.
	pool *inventory.NodePool
	// at is the time of that state: now, or when the pool ceased to be complete.
	at time.Time
}

// lastState is the last state with all slices of a pool that is now incomplete.
type lastState struct {
	// pool returns that state. It may be invalid: checking that takes longer and is left to the
	// reader.
	pool  func() *inventory.NodePool
	until time.Time
}

// PoolPublished handles a change of a pool, from one version to the next (nil if there is none). It
// is quick, and may be called under a lock that ledger.Pools does not need.
func (o *Log) PoolPublished(before, after *inventory.Pool) {
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

// viewOf returns the view of a pool.
func (o *Log) viewOf(key inventory.PoolKey) view {
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

// isComplete reports whether all slices of the pool at that time are known.
func (v *view) isComplete() bool { return v.pool != nil && v.pool.State == inventory.Complete }

// device returns a published device, even of an incomplete pool.
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

// mayAppear reports whether an allocated device that is not in the view may still be published, or
// be in the state after the view's, because it was allocated so late. Otherwise the driver has
// withdrawn the device.
func (v *view) mayAppear(device deviceName, holder *allocation) bool {
	return v.device(device.Value()) == nil && v.at.Sub(holder.arrived) < publishedWithin
}

// Undecided returns why it cannot be judged (yet) whether the claim must yield, nil if it can. The
// claim then shares a pool with others, and no complete state of the pool is known, or devices of
// the claim or of claims that are not later are not published. The state ends when drivers have
// published all slices, so it is worth waiting and asking again.
func (o *Log) Undecided(claim types.UID) error {
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
		if v := o.viewOf(key); v.pool == nil || len(v.pool.Off) == 0 { // Pools that need a disabled feature are not judged.
			if err := o.index.undecided(own, key, v); err != nil {
				return fmt.Errorf("it is not known whether claim %s and others were allocated more of pool %s than there is: %w", own.ref, v.id, err)
			}
		}
	}
	return nil
}

// undecided implements Undecided for one pool.
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

// lacks returns the error for a device that is not published.
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
