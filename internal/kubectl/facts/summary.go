package facts

import (
	"cmp"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Counts has numbers of devices by state.
type Counts struct {
	Devices     int `json:"devices"`
	Free        int `json:"free"`
	Allocated   int `json:"allocated"`
	Shared      int `json:"shared"`
	Tainted     int `json:"tainted"`
	Unavailable int `json:"unavailable"`
	NotKnown    int `json:"notKnown,omitempty"`
}

func (c *Counts) add(s State) {
	c.Devices++
	switch s {
	case Free:
		c.Free++
	case Allocated:
		c.Allocated++
	case Shared:
		c.Shared++
	case Tainted:
		c.Tainted++
	case NotKnown:
		c.NotKnown++
	default:
		c.Unavailable++
	}
}

func (c *Counts) plus(other Counts) {
	c.Devices += other.Devices
	c.Free += other.Free
	c.Allocated += other.Allocated
	c.Shared += other.Shared
	c.Tainted += other.Tainted
	c.Unavailable += other.Unavailable
	c.NotKnown += other.NotKnown
}

// Pool is a pool of devices.
type Pool struct {
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// Shared pools are for more than one node.
	Shared bool `json:"shared,omitempty"`
	// State is complete, incomplete or invalid, and Reason says why it is not complete.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Counts `json:",inline"`
}

// Unit is a device, or a counter set that partitions draw from: a bar has one cell for each unit.
type Unit struct {
	// Name is the name of the device, or of the counter set (KEP-4815).
	Name        string `json:"name"`
	Partitioned bool   `json:"partitioned,omitempty"`
	State       State  `json:"state"`
	// Used is the used fraction, from 0 to 1: for partitions and shares, of the scarcest counter or capacity.
	Used float64 `json:"used"`
}

// Summary sums up the devices of one driver on a node, or in a pool for several nodes.
type Summary struct {
	Driver string `json:"driver"`
	// Node is set if the devices are local to a node; otherwise Pool is their pool.
	Node   string `json:"node,omitempty"`
	Pool   string `json:"pool,omitempty"`
	Counts `json:",inline"`
	Units  []Unit `json:"units,omitempty"`
	// Rooms are sums over all counters and all capacities of shareable devices, by name.
	Rooms []Room `json:"rooms,omitempty"`
}

// Driver sums up the devices of a driver.
type Driver struct {
	Name string `json:"name"`
	// Nodes is the number of nodes with local devices, and Pools the number of pools.
	Nodes  int `json:"nodes"`
	Pools  int `json:"pools"`
	Counts `json:",inline"`
	Units  int    `json:"units"`
	Rooms  []Room `json:"rooms,omitempty"`
}

// Overview sums up the whole cluster.
type Overview struct {
	Drivers   []Driver  `json:"drivers,omitempty"`
	Summaries []Summary `json:"summaries,omitempty"`
	// Pools lists all pools, by driver and name.
	Pools []Pool `json:"pools,omitempty"`
}

// Overview sums up all devices or, if a node is given, those in the pools that it reaches.
func (f *Facts) Overview(node string) Overview {
	pools := f.snapshot.Pools()
	if n := f.snapshot.Node(node); n != nil {
		pools = nil
		for _, seen := range f.snapshot.PoolsOn(n) {
			pools = append(pools, f.snapshot.Pool(seen.ID))
		}
		slices.SortFunc(pools, func(a, b *inventory.NodePool) int { return a.ID.Compare(b.ID) })
	}
	s := summing{facts: f, byPlace: make(map[[3]string]*Summary)}
	for _, pool := range pools {
		s.add(pool, node)
	}
	slices.SortStableFunc(s.pools, byName)
	o := Overview{Pools: s.pools}
	for _, summary := range s.byPlace {
		o.Summaries = append(o.Summaries, *summary)
	}
	slices.SortFunc(o.Summaries, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), naturally(a.Node, b.Node))
	})
	o.Drivers = drivers(o.Summaries, o.Pools)
	return o
}

func byName(a, b Pool) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), naturally(a.Name, b.Name))
}

func drivers(summaries []Summary, pools []Pool) []Driver {
	var list []Driver
	at := func(name string) *Driver {
		if len(list) == 0 || list[len(list)-1].Name != name {
			list = append(list, Driver{Name: name})
		}
		return &list[len(list)-1]
	}
	for i := range pools {
		at(pools[i].Driver).Pools++
	}
	for i := range summaries {
		s := &summaries[i]
		n, _ := slices.BinarySearchFunc(list, s.Driver, func(d Driver, name string) int { return cmp.Compare(d.Name, name) })
		driver := &list[n]
		driver.plus(s.Counts)
		driver.Units += len(s.Units)
		if s.Node != "" {
			driver.Nodes++
		}
		for j := range s.Rooms {
			driver.Rooms = sum(driver.Rooms, s.Rooms[j])
		}
	}
	return list
}

// summing collects the result of Overview.
type summing struct {
	facts   *Facts
	byPlace map[[3]string]*Summary
	pools   []Pool
}

// add adds a pool. With a node, devices that are local to another node do not count.
func (s *summing) add(pool *inventory.NodePool, node string) {
	p := Pool{Driver: pool.ID.Driver, Name: pool.ID.Name, State: pool.State.String(), Reason: pool.Reason}
	usage := s.facts.usage(pool)
	states := make([]State, len(pool.Devices))
	for i := range pool.Devices {
		device := &pool.Devices[i]
		use := usage.Device(device.Name)
		states[i], _ = s.facts.stateOf(pool, usage, i, use)
		p.add(states[i])
		reach := reachOf(device)
		p.Shared = p.Shared || reach.IsShared()
		if node != "" && reach.Node != "" && reach.Node != node {
			continue
		}
		summary := s.at(pool.ID, reach)
		summary.add(states[i])
		rooms := capacities(device, use)
		for _, room := range rooms {
			summary.Rooms = sum(summary.Rooms, room)
		}
		if len(pool.Counters.Draws(i)) == 0 {
			summary.Units = append(summary.Units, unitOf(device.Name, states[i], rooms))
		}
	}
	s.pools = append(s.pools, p)
	if pool.Counters != nil && len(pool.Counters.Sets) > 0 {
		s.addPartitions(pool, states, usage.Remaining(pool).Amounts, node)
	}
}

// addPartitions adds a unit for each counter set, with the reach of the first device that draws from it.
func (s *summing) addPartitions(pool *inventory.NodePool, states []State, left []quantity.Amount, node string) {
	for set, name := range pool.Counters.Sets {
		drawing := pool.Drawing(set)
		if len(drawing) == 0 {
			continue
		}
		reach := reachOf(&pool.Devices[drawing[0]])
		if node != "" && reach.Node != "" && reach.Node != node {
			continue
		}
		summary := s.at(pool.ID, reach)
		unit := Unit{Name: name, Partitioned: true, State: stateOfPartitions(states, drawing)}
		first, end := pool.Counters.Range(set)
		for number := first; number < end; number++ {
			room := counterRoom(pool, left, number)
			unit.Used = max(unit.Used, min(room.Used(), 1))
			room.Set = ""
			summary.Rooms = sum(summary.Rooms, room)
		}
		summary.Units = append(summary.Units, unit)
	}
}

// stateOfPartitions combines the states of all devices that draw from a counter set.
func stateOfPartitions(states []State, drawing []int) State {
	var c Counts
	for _, i := range drawing {
		c.add(states[i])
	}
	switch {
	case c.Allocated+c.Shared > 0 && c.Free > 0:
		return Shared
	case c.Allocated+c.Shared > 0:
		return Allocated
	case c.Free > 0:
		return Free
	case c.NotKnown > 0:
		return NotKnown
	case c.Tainted > 0:
		return Tainted
	}
	return Unavailable
}

func unitOf(name string, state State, rooms []Room) Unit {
	unit := Unit{Name: name, State: state}
	switch state {
	case Allocated:
		unit.Used = 1
	case Shared:
		for i := range rooms {
			unit.Used = max(unit.Used, min(rooms[i].Used(), 1))
		}
	}
	return unit
}

func (s *summing) at(id inventory.PoolID, reach Reach) *Summary {
	key := [3]string{id.Driver, reach.Node, ""}
	if reach.IsShared() {
		key[2] = id.Name
	}
	summary := s.byPlace[key]
	if summary == nil {
		summary = &Summary{Driver: id.Driver, Node: reach.Node, Pool: key[2]}
		s.byPlace[key] = summary
	}
	return summary
}

// sum adds a room to the one with the same kind and name.
func sum(rooms []Room, more Room) []Room {
	more.Set = ""
	for i := range rooms {
		if rooms[i].Kind == more.Kind && rooms[i].Name == more.Name {
			rooms[i].plus(&more)
			return rooms
		}
	}
	return append(rooms, more)
}

// naturally compares names in natural order: node-9 comes before node-10.
func naturally(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m > 0 && n > 0 {
			if c := cmp.Or(cmp.Compare(len(trimmed(x[:m])), len(trimmed(y[:n]))), cmp.Compare(trimmed(x[:m]), trimmed(y[:n]))); c != 0 {
				return c
			}
			x, y = x[m:], y[n:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func trimmed(number string) string {
	for len(number) > 1 && number[0] == '0' {
		number = number[1:]
	}
	return number
}
