package nodecache

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// directory gives nodes numbers, so that what is known of them takes little memory. Answers
// keep theirs until they begin anew.
type directory struct {
	ids   map[string]int32
	names []string
	// isLocal has, by number, the nodes that have pools for themselves, and local is how many these are.
	isLocal []bool
	local   int
	// changed has, by number, when something changed that matters to devices, resized when there was another amount of
	// room: by the clock, which moves on with each change.
	changed, resized []uint64
	clock            uint64
}

// change is what happened on a node, or to who holds devices of a pool that is not for one node alone.
type change struct {
	id   int32
	pool inventory.PoolID // zero if it is a node
	// resized is set if there is another amount of room, and nothing else.
	resized bool
}

func newDirectory() *directory { return &directory{ids: make(map[string]int32)} }

// id returns the number of a node.
func (d *directory) id(name string) int32 {
	id, known := d.ids[name]
	if !known {
		id = int32(len(d.names))
		d.ids[name] = id
		d.names = append(d.names, name)
		d.isLocal, d.changed, d.resized = append(d.isLocal, false), append(d.changed, 0), append(d.resized, 0)
	}
	return id
}

func (d *directory) setLocal(id int32, is bool) {
	if d.isLocal[id] != is {
		d.isLocal[id] = is
		d.local += map[bool]int{true: 1, false: -1}[is]
	}
}

// goneAtMost is how many nodes that are gone have numbers in any case.
const goneAtMost = 1000

// follow brings names and log up to date with what others say has changed.
func (x *Index) follow() {
	published, inventoryEnd, complete := x.inventory.Changed.Since(x.position.inventory)
	pools, ledgerEnd, alsoComplete := x.ledger.Changed.Since(x.position.ledger)
	nodes, nodesEnd, allComplete := x.nodesChanged.Since(x.position.nodes)
	resized, roomsEnd, roomsComplete := x.rooms.Changed.Since(x.position.rooms)
	x.published = x.inventory.SharedChanged.End()
	x.position.inventory, x.position.ledger, x.position.nodes, x.position.rooms = inventoryEnd, ledgerEnd, nodesEnd, roomsEnd
	if x.names == nil || !complete || !alsoComplete || !allComplete || !roomsComplete || len(x.names.names) > 2*max(x.names.local, x.rooms.Len())+goneAtMost {
		x.begin()
		return
	}
	for _, change := range published {
		if change.Node != "" {
			x.nodeChanged(change.Node)
		} else {
			pools = append(pools, change.Pool)
		}
	}
	slices.SortFunc(pools, inventory.PoolID.Compare)
	shared := x.inventory.SharedPools()
	for _, id := range slices.Compact(pools) {
		for _, name := range x.inventory.NodesOf(id) {
			x.nodeChanged(name)
		}
		if _, isShared := slices.BinarySearchFunc(shared, id, inventory.PoolID.Compare); isShared {
			x.log.Add(change{pool: id})
		}
	}
	for _, name := range nodes {
		x.nodeChanged(name)
	}
	for _, name := range resized {
		id, known := x.names.ids[name]
		switch {
		case !known:
			x.names.id(name) // It is new.
		case x.names.isLocal[id]:
			x.names.clock++
			x.names.resized[id] = x.names.clock
			x.log.Add(change{id: id, resized: true})
		}
	}
}

// begin has all answers begin anew.
func (x *Index) begin() {
	x.names = newDirectory()
	for name := range x.inventory.LocalNodes() {
		x.names.setLocal(x.names.id(name), true)
	}
	for _, name := range x.rooms.Nodes() {
		x.names.id(name)
	}
}

// nodeChanged notes that something changed on a node.
func (x *Index) nodeChanged(name string) {
	id := x.names.id(name)
	x.names.setLocal(id, x.inventory.IsLocal(name))
	x.names.clock++
	x.names.changed[id] = x.names.clock
	x.log.Add(change{id: id})
}
