package telemetry

import (
	"slices"
	"weak"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// kind says whether a pool is local to a node.
type kind int

const (
	// ofNode means that all slices are for the same node (spec.nodeName).
	ofNode kind = iota
	// shared means that they are for several nodes, or for all (spec.nodeSelector, allNodes, perDeviceNodeSelection).
	shared

	kindCount int = iota
)

var kindNames = [kindCount]string{"node", "shared"}

// state is the state of a device. If several apply, the first counts.
type state int

const (
	// unusable devices are in an incomplete or invalid pool, even if a claim holds them.
	unusable state = iota
	// allocated devices are held by a claim, or have an allocation in flight.
	allocated
	// partly allocated devices are allocated several times (KEP-5075), and may have capacity left.
	partly
	// tainted devices have a taint with effect NoSchedule or NoExecute. Some requests may tolerate it.
	tainted
	// exhausted devices draw on counters with too little left (KEP-4815): other partitions of the same device are in
	// use.
	exhausted
	// free devices are in none of the states above.
	free

	stateCount int = iota
)

var stateNames = [stateCount]string{"unusable", "allocated", "shared", "tainted", "exhausted", "free"}

// poolStates are the names of inventory.State.
var poolStates = [...]string{inventory.Complete: "complete", inventory.Incomplete: "incomplete", inventory.Invalid: "invalid"}

// poolCount has the counts of a pool. It is valid while the pool and its usage are the current versions. Weak
// pointers identify them without keeping them alive.
type poolCount struct {
	pool  weak.Pointer[inventory.Pool]
	usage weak.Pointer[ledger.PoolUsage]

	kind    kind
	node    string // for kind ofNode
	state   inventory.State
	devices [stateCount]int
}

// countPool counts the devices of a pool. It takes as long as the first look of an attempt at a changed pool.
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
		case bitset.Has(view.Tainted, i) && slices.ContainsFunc(view.Devices[i].Taints, inventory.KeepsAway):
			c.devices[tainted]++
		case bitset.Has(spent, i):
			c.devices[exhausted]++
		default:
			c.devices[free]++
		}
	}
	return c
}

// counts has the counts of a scheduler's pools.
type counts map[inventory.PoolKey]*poolCount

// next returns the current counts. It does not recount unchanged pools.
func (c counts) next(state *cluster.State) counts {
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
