package nodecache

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// directory numbers nodes, so that results for them take little memory. Answers keep their
// directory until they are reset.
type directory struct {
	ids   map[string]int32
	names []string
	// isLocal says, by number, which nodes have pools for themselves, and local counts them.
	isLocal []bool
	local   int
	// changed holds, by number, the time of the last change that matters to devices, and resized
	// the time of the last change of the room. Times are those of clock, which advances with each
	// change.
	changed, resized []uint64
	clock            uint64
}

// change is a change of a node, or of the holders of devices of a pool that is not for one node
// alone.
type change struct {
	id   int32
	pool inventory.PoolID // zero for a change of a node
	// resized is set if only the amount of room changed.
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

// goneAtMost is the number of deleted nodes that may always keep their numbers.
const goneAtMost = 1000

// follow updates names and log with the changes in the inventory, the ledger, the nodes and the
// rooms.
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
		if !known {
			x.names.id(name) // The node is new.
			continue
		}
		x.names.clock++
		x.names.resized[id] = x.names.clock
		x.log.Add(change{id: id, resized: true})
	}
}

// begin resets all answers.
func (x *Index) begin() {
	x.names = newDirectory()
	for name := range x.inventory.LocalNodes() {
		x.names.setLocal(x.names.id(name), true)
	}
	for _, name := range x.rooms.Nodes() {
		x.names.id(name)
	}
}

// nodeChanged records a change of a node.
func (x *Index) nodeChanged(name string) {
	id := x.names.id(name)
	x.names.setLocal(id, x.inventory.IsLocal(name))
	x.names.clock++
	x.names.changed[id] = x.names.clock
	x.log.Add(change{id: id})
}
