package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// deviceOfPool identifies a device in its pool.
type deviceOfPool struct {
	pool   *inventory.NodePool
	device int // position in the pool
}

// sheet is a tile in preparation: the devices on it.
type sheet struct {
	name    string
	shared  bool
	devices []deviceOfPool
}

// sheets puts each device on the tile of its node, or on that of its pool if it is for several nodes.
func sheets(s *whatif.Snapshot) []*sheet {
	byName := make(map[string]*sheet)
	add := func(name string, shared bool, p deviceOfPool) {
		one := byName[name]
		if one == nil {
			one = &sheet{name: name, shared: shared}
			byName[name] = one
		}
		one.devices = append(one.devices, p)
	}
	for _, pool := range s.Pools() {
		for i := range pool.Devices {
			if node := nodeOf(&pool.Devices[i]); node != "" {
				add(node, false, deviceOfPool{pool, i})
			} else {
				add(pool.ID.String(), true, deviceOfPool{pool, i})
			}
		}
	}
	// Pools for several nodes come after the nodes.
	return slices.SortedFunc(maps.Values(byName), func(a, b *sheet) int {
		if a.shared != b.shared {
			if a.shared {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.name, b.name)
	})
}

// nodeOf returns the node of a local device, "" if the device may be for several nodes.
func nodeOf(device *inventory.Device) string {
	if name := device.Slice.Spec.NodeName; name != nil && *name != "" {
		return *name
	}
	if name := device.NodeName; name != nil {
		return *name
	}
	return ""
}

// drawing makes the tiles of a snapshot.
type drawing struct {
	snapshot *whatif.Snapshot
	layouts  *layouts
	// blind says why claims are unknown, "" if they are known.
	blind string
}

// layouts numbers all layouts. They are kept, because tiles of earlier versions refer to them.
type layouts struct {
	numbers map[string]int
	all     []Layout
}

func (l *layouts) number(layout Layout) int {
	text, _ := json.Marshal(layout)
	if n, known := l.numbers[string(text)]; known {
		return n
	}
	n := len(l.all)
	l.numbers[string(text)] = n
	l.all = append(l.all, layout)
	return n
}

func newDrawing(s *whatif.Snapshot, known *layouts) *drawing {
	d := &drawing{snapshot: s, layouts: known}
	for _, missing := range s.Missing() {
		if strings.HasPrefix(missing.Resource, "resourceclaims.") {
			d.blind = missing.Why
		}
	}
	return d
}

// tile makes one tile.
func (d *drawing) tile(from *sheet) Tile {
	tile := Tile{Name: from.name, Shared: from.shared}
	layout := Layout{}
	pools := make(map[*inventory.NodePool]int)
	wholes := make(map[counterSet]int)
	var states strings.Builder
	for at, p := range from.devices {
		number, known := pools[p.pool]
		if !known {
			number = len(tile.Pools)
			pools[p.pool] = number
			tile.Pools = append(tile.Pools, p.pool.ID.String())
			if p.pool.State != inventory.Complete && tile.Problem == "" {
				tile.Problem = fmt.Sprintf("pool %s is %s: %s", p.pool.ID, strings.ToLower(p.pool.State.String()), p.pool.Reason)
			}
		}
		layout.Names = append(layout.Names, p.pool.Devices[p.device].Name)
		layout.Pools = append(layout.Pools, number)
		layout.Parts = append(layout.Parts, addPart(&layout, wholes, p, at))
		states.WriteByte(d.device(&tile, at, p))
	}
	dissolve(&layout)
	if len(layout.Wholes) == 0 {
		layout.Parts = nil
	}
	tile.WholeLevels = d.wholeLevels(from, &layout)
	tile.Layout, tile.States = d.layouts.number(layout), states.String()
	if !from.shared {
		tile.Unready = !takesPods(d.snapshot.Node(from.name))
	}
	if d.blind != "" && tile.Problem == "" {
		tile.Problem = "it is not known who holds devices: " + d.blind
	}
	return tile
}

// device adds the facts about one device to its tile, and returns its state.
func (d *drawing) device(tile *Tile, at int, p deviceOfPool) byte {
	device := &p.pool.Devices[p.device]
	usage := ledger.Of(d.snapshot.Usage(), p.pool)
	use := usage.Device(device.Name)
	if tainted(device) {
		tile.Tainted = append(tile.Tainted, at)
	}
	if claims := holders(use); len(claims) > 0 {
		if tile.Holders == nil {
			tile.Holders = make(map[int][]string)
		}
		tile.Holders[at] = claims
	}
	if len(use.Holders) > 1 || len(use.Holders) > 0 && len(use.Shares) > 0 {
		tile.Conflicts = append(tile.Conflicts, at)
	}
	if len(use.Holders) == 0 && len(use.Shares) > 0 {
		if tile.Levels == nil {
			tile.Levels = make(map[int]int)
		}
		tile.Levels[at] = level(device, use.Shares)
	}
	return d.state(p, usage, use)
}

func (d *drawing) state(p deviceOfPool, usage *ledger.PoolUsage, use ledger.DeviceUsage) byte {
	switch {
	case len(use.Holders) > 0:
		return Allocated
	case len(use.Shares) > 0:
		return InShares
	case p.pool.State != inventory.Complete || d.blind != "":
		return Unknown
	case exhausted(p, usage):
		return Blocked
	}
	return Free
}

func exhausted(p deviceOfPool, usage *ledger.PoolUsage) bool {
	if p.pool.Partitions.Empty() {
		return false
	}
	set := usage.Exhausted(p.pool)
	return set != nil && set.Has(p.device)
}

// takesPods reports whether a node exists, is ready and is not cordoned.
func takesPods(node *v1.Node) bool {
	if node == nil || node.Spec.Unschedulable {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return true
}
