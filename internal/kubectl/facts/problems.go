package facts

import (
	"cmp"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Problems lists inconsistencies and waste.
type Problems struct {
	// Unused claims are allocated, but no consumer that may still need them is known.
	Unused []Claim `json:"unused,omitempty"`
	// Twice lists devices with several exclusive holders, with an exclusive holder beside shares, or with the same
	// share twice.
	Twice []Contested `json:"twice,omitempty"`
	// Overdrawn lists counters and capacities that are used beyond their published amount.
	Overdrawn []Overdraft `json:"overdrawn,omitempty"`
	// Unpublished lists allocated devices that are not published.
	Unpublished []Contested `json:"unpublished,omitempty"`
	// Pools lists incomplete pools.
	Pools []Pool `json:"pools,omitempty"`
}

// Len returns the number of problems.
func (p *Problems) Len() int {
	return len(p.Unused) + len(p.Twice) + len(p.Overdrawn) + len(p.Unpublished) + len(p.Pools)
}

// Contested is a device with its holders.
type Contested struct {
	DeviceID `json:",inline"`
	Holders  []Holder `json:"holders"`
	// PoolState is set if the pool is incomplete, which may be why the device is not published.
	PoolState string `json:"poolState,omitempty"`
}

// Overdraft is a counter or capacity that is used beyond its published amount, with the claims that use it.
type Overdraft struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	// Device is set for capacities.
	Device string   `json:"device,omitempty"`
	Room   Room     `json:"room"`
	Claims []string `json:"claims"`
}

// Problems looks for problems. It reports none about objects that could not be read.
func (f *Facts) Problems() Problems {
	var p Problems
	for i := range f.claims {
		if f.claims[i].Unused {
			p.Unused = append(p.Unused, f.claims[i])
		}
	}
	known := make(map[inventory.PoolID]*inventory.NodePool)
	for _, pool := range f.snapshot.Pools() {
		known[pool.ID] = pool
		if pool.State != inventory.Complete {
			s := summing{facts: f, byPlace: make(map[[3]string]*Summary)}
			s.add(pool, "")
			p.Pools = append(p.Pools, s.pools[0])
		}
		p.Overdrawn = append(p.Overdrawn, f.overdrawn(pool)...)
	}
	for id := range f.heldPools() {
		p.addHeld(f, id, known[id])
	}
	byID := func(a, b Contested) int { return a.compare(b.DeviceID) }
	slices.SortFunc(p.Twice, byID)
	slices.SortFunc(p.Unpublished, byID)
	slices.SortStableFunc(p.Pools, byName)
	return p
}

func (id DeviceID) compare(other DeviceID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), naturally(id.Pool, other.Pool), naturally(id.Device, other.Device))
}

// ByPool compares devices by driver and pool, in natural order (node-9 before node-10).
func ByPool(a, b Device) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), naturally(a.Pool, b.Pool))
}

// heldPools returns the pools with held devices.
func (f *Facts) heldPools() map[inventory.PoolID]bool {
	pools := make(map[inventory.PoolID]bool)
	for i := range f.claims {
		for _, held := range f.claims[i].Devices {
			pools[held.pool()] = true
		}
	}
	return pools
}

func (p *Problems) addHeld(f *Facts, id inventory.PoolID, pool *inventory.NodePool) {
	for name, use := range f.snapshot.Usage().Pool(id).All() {
		c := Contested{DeviceID: DeviceID{id.Driver, id.Name, name}}
		twice := isTwice(use)
		unpublished := !f.DevicesUnknown() && !isPublished(pool, name)
		if !twice && !unpublished {
			continue
		}
		c.Holders = f.holders(c.DeviceID, use)
		if twice {
			p.Twice = append(p.Twice, c)
		}
		if unpublished {
			if pool != nil && pool.State != inventory.Complete {
				c.PoolState = pool.State.String()
			}
			p.Unpublished = append(p.Unpublished, c)
		}
	}
}

// isPublished reports whether a pool has a device. Incomplete pools have no index of their devices.
func isPublished(pool *inventory.NodePool, name string) bool {
	return pool != nil && position(pool, name) >= 0
}

func position(pool *inventory.NodePool, name string) int {
	if i, found := pool.Position(name); found {
		return i
	}
	if pool.State == inventory.Complete {
		return -1
	}
	return slices.IndexFunc(pool.Devices, func(d inventory.Device) bool { return d.Name == name })
}

func isTwice(use ledger.DeviceUsage) bool {
	if len(use.Holders) > 1 || len(use.Holders) == 1 && len(use.Shares) > 0 {
		return true
	}
	for i := range use.Shares {
		for j := range i {
			if use.Shares[i].ID == use.Shares[j].ID {
				return true
			}
		}
	}
	return false
}

// overdrawn returns the overdrawn counters and capacities of a pool.
func (f *Facts) overdrawn(pool *inventory.NodePool) []Overdraft {
	usage := f.usage(pool)
	if usage.Len() == 0 {
		return nil
	}
	var found []Overdraft
	for i := range pool.Shareable.All() {
		device := &pool.Devices[i]
		use := usage.Device(device.Name)
		if len(use.Shares) == 0 {
			continue
		}
		for _, room := range capacities(device, ledger.DeviceUsage{Shares: use.Shares}) {
			if room.left.IsNegative() {
				found = append(found, Overdraft{pool.ID.Driver, pool.ID.Name, device.Name, room, claimsOf(use, nil)})
			}
		}
	}
	remaining := usage.Remaining(pool)
	if !remaining.Overdrawn {
		return found
	}
	for number, left := range remaining.Amounts {
		if !left.IsNegative() {
			continue
		}
		var claims []string
		set, _ := slices.BinarySearch(pool.Counters.Sets, pool.Counters.SetOf(number))
		for _, i := range pool.Drawing(set) {
			claims = claimsOf(usage.Device(pool.Devices[i].Name), claims)
		}
		found = append(found, Overdraft{pool.ID.Driver, pool.ID.Name, "", counterRoom(pool, remaining.Amounts, number), claims})
	}
	return found
}

// claimsOf appends the claims that use a device to a list, without duplicates.
func claimsOf(use ledger.DeviceUsage, claims []string) []string {
	add := func(ref ledger.ClaimRef) {
		if key := ref.String(); !slices.Contains(claims, key) {
			claims = append(claims, key)
		}
	}
	for _, ref := range use.Holders {
		add(ref)
	}
	for i := range use.Shares {
		add(use.Shares[i].Holder)
	}
	return claims
}
