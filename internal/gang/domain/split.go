package domain

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Domain is some of the nodes that were asked about.
type Domain struct {
	// Name is the value of the label or of the attribute. Strings are in quotes if a value of another
	// type looks like that.
	Name string
	// Nodes are indices, ascending, each once. There is at least one.
	Nodes []int
}

// Split returns the domains of nodes, sorted by name. A node without the label, or without a device
// that has the attribute, is in none; one whose devices have several values is in several. Whether
// devices are free does not matter, only whether the node reaches them and their pool is complete.
// pools returns the pools that a node sees; it is not called for labels.
func Split(key Key, nodes []*v1.Node, pools func(*v1.Node) []*inventory.NodePool) []Domain {
	byName := make(map[string]*Domain)
	add := func(name string, node int) {
		d, found := byName[name]
		if !found {
			d = &Domain{Name: name}
			byName[name] = d
		}
		// The nodes come in their order, so if it is there, it is the last one.
		if n := len(d.Nodes); n == 0 || d.Nodes[n-1] != node {
			d.Nodes = append(d.Nodes, node)
		}
	}
	for i, node := range nodes {
		switch {
		case key.Label != "":
			if value, found := node.Labels[key.Label]; found {
				add(value, i)
			}
		case key.Attribute != "":
			for _, pool := range pools(node) {
				eachDomain(key.Attribute, pool, func(name string) { add(name, i) })
			}
		}
	}
	result := make([]Domain, 0, len(byName))
	for _, d := range byName {
		result = append(result, *d)
	}
	slices.SortFunc(result, func(a, b Domain) int { return cmp.Compare(a.Name, b.Name) })
	return result
}

// eachDomain calls a function with each domain of the devices that a node reaches in a pool.
func eachDomain(attribute string, pool *inventory.NodePool, do func(name string)) {
	if pool.State != inventory.Complete {
		return
	}
	c := columnOf(attribute, pool)
	for i, name := range c.names {
		if pool.Reachable.Intersects(c.having[i]) {
			do(name)
		}
	}
}

// Blocked returns which devices of a node must not be allocated for a gang that is in a domain: those
// that have the attribute, but not with the domain's value. Devices without the attribute are of no
// concern. pools are those that the node sees. The result has, by pool, the names of devices in the
// order of the pool; it is nil if there are none, as always for labels.
func Blocked(key Key, domain string, pools []*inventory.NodePool) map[inventory.PoolID][]string {
	var blocked map[inventory.PoolID][]string
	for _, pool := range pools {
		others := outside(key, domain, pool)
		if others.Empty() {
			continue
		}
		if blocked == nil {
			blocked = make(map[inventory.PoolID][]string)
		}
		for i := range others.All() {
			blocked[pool.ID] = append(blocked[pool.ID], pool.Devices[i].Name)
		}
	}
	return blocked
}

// Within returns the pools as the node would see them if it did not reach the devices that are Blocked.
// They are the same pools, in the same list if nothing is blocked.
func Within(key Key, domain string, pools []*inventory.NodePool) []*inventory.NodePool {
	result, own := pools, false
	for i, pool := range pools {
		others := outside(key, domain, pool)
		if others.Empty() {
			continue
		}
		if !own {
			result, own = slices.Clone(pools), true
		}
		part := *pool
		part.Reachable = pool.Reachable.Clone()
		part.Reachable.AndNot(others)
		result[i] = &part
	}
	return result
}

// outside returns the devices that a node reaches in a pool and that are Blocked, by position; nil for labels.
func outside(key Key, domain string, pool *inventory.NodePool) bitset.Set {
	if key.Attribute == "" || pool.State != inventory.Complete {
		return nil
	}
	c := columnOf(key.Attribute, pool)
	others := c.published.Clone()
	others.And(pool.Reachable)
	if inside := c.of(domain); inside != nil {
		others.AndNot(inside)
	}
	return others
}

// Names returns the domains that a device is in, none for labels. It is for few devices: nothing is
// remembered.
func Names(key Key, device *inventory.Device) []string {
	if key.Attribute == "" {
		return nil
	}
	of := attribute.NewName(resourceapi.FullyQualifiedName(key.Attribute))
	return namesOf(&of, device)
}

// Members returns the devices of a pool that are in a domain by an attribute, reachable or not, by
// position; nil if there are none. The set is shared and must not be changed.
func Members(key Key, domain string, pool *inventory.NodePool) bitset.Set {
	if key.Attribute == "" || pool.State != inventory.Complete {
		return nil
	}
	return columnOf(key.Attribute, pool).of(domain)
}
