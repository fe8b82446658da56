package devicemetrics

import (
	"slices"
	"weak"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/clusterstate"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// kind says where devices of a pool can be used.
type kind int

const (
	// ofNode: all slices are for one and the same node (spec.nodeName).
	ofNode kind = iota
	// shared: they are for several, or for all (spec.nodeSelector, allNodes, perDeviceNodeSelection).
	shared

	kindCount int = iota
)

var kindNames = [kindCount]string{"node", "shared"}

// state is that of a device. The first that applies counts.
type state int

const (
	// unusable devices are in a pool that is incomplete or invalid, whoever holds them.
	unusable state = iota
	// allocated devices belong to a claim, or are about to.
	allocated
	// partly allocated devices are allocated several times (KEP-5075), and may have something left.
	partly
	// tainted devices have a taint with effect NoSchedule or NoExecute. Some requests may tolerate it.
	tainted
	// exhausted devices draw on counters of which too little is left (KEP-4815): partitions of the same device are
	// in use.
	exhausted
	// free devices are none of that.
	free

	stateCount int = iota
)

var stateNames = [stateCount]string{"unusable", "allocated", "shared", "tainted", "exhausted", "free"}

// poolStates are the states of pools, by inventory.State.
var poolStates = [...]string{inventory.Complete: "complete", inventory.Incomplete: "incomplete", inventory.Invalid: "invalid"}

// poolCount is what a pool has. The versions of the pool, and of what is used of it, are those that it was counted
// from: as long as they are the current ones, nothing has changed. They are not kept alive for that.
type poolCount struct {
	pool  weak.Pointer[inventory.Pool]
	usage weak.Pointer[ledger.PoolUsage]

	kind    kind
	node    string // of kind ofNode
	state   inventory.State
	devices [stateCount]int
}

// countPool counts the devices of a pool. It takes as long as the first look of an attempt at a pool that has changed.
func countPool(pool *inventory.Pool, usage *ledger.PoolUsage) *poolCount {
	view := pool.Everywhere()
	c := &poolCount{pool: weak.Make(pool), usage: weak.Make(usage), node: pool.Node(), state: view.State}
	if c.node == "" {
		c.kind = shared
	}
	if view.State != inventory.Complete {
		c.devices[unusable] = len(view.Devices)
		return c
	}
	held, sharing, spent := usage.Held(view), usage.Shared(view), usage.Exhausted(view)
	for i := range view.Devices {
		switch {
		case bitset.Has(held, i):
			c.devices[allocated]++
		case bitset.Has(sharing, i):
			c.devices[partly]++
		case bitset.Has(view.Tainted, i) && slices.ContainsFunc(view.Devices[i].Taints, keepsAway):
			c.devices[tainted]++
		case bitset.Has(spent, i):
			c.devices[exhausted]++
		default:
			c.devices[free]++
		}
	}
	return c
}

// keepsAway reports whether devices with the taint are only for those who tolerate it. There is also the effect None.
func keepsAway(taint resourceapi.DeviceTaint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}

// counts are those of a scheduler's pools.
type counts map[inventory.PoolKey]*poolCount

// next returns the counts of the moment. Pools that are as they were are not counted again.
func (c counts) next(state *clusterstate.State) counts {
	next := make(counts, len(c))
	for pool := range state.Inventory.All() {
		usage := state.Ledger.OfKey(pool.Key())
		known := c[pool.Key()]
		if known == nil || known.pool != weak.Make(pool) || known.usage != weak.Make(usage) {
			known = countPool(pool, usage)
		}
		next[pool.Key()] = known
	}
	return next
}
