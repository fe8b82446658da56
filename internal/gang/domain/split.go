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

// A Domain is a subset of the nodes given to Split.
type Domain struct {
	// Name is the value of the label or of the attribute. A string is quoted if it looks like a value of another type.
	Name string
	// Nodes are indices into the nodes, ascending and distinct. There is at least one.
	Nodes []int
}

// Split returns the domains of nodes, sorted by name. A node is in no domain without the label, or
// without a device that has the attribute; it is in several if its devices have several values.
// Devices count even if they are in use; the node must reach them, and their pool must be complete.
// pools returns the pools of a node; it is not called for labels.
func Split(key Key, nodes []*v1.Node, pools func(*v1.Node) []*inventory.NodePool) []Domain {
	byName := make(map[string]*Domain)
	add := func(name string, node int) {
		d, found := byName[name]
		if !found {
			d = &Domain{Name: name}
			byName[name] = d
		}
		// Nodes come in order, so a node that is there already is the last one.
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

// A group is tried in at most mostDomains domains if a node is in more than mostOfNode of them on average: a tenant can name an attribute that
// each of a thousand devices in reach of a thousand nodes has another value of.
const mostDomains, mostOfNode = 256, 16

// TooMany reports whether a number of nodes are in too many domains to try a group in each.
func TooMany(domains []Domain, nodes int) bool {
	members := 0
	for _, d := range domains {
		members += len(d.Nodes)
	}
	return len(domains) > mostDomains && members > mostOfNode*nodes
}

// eachDomain calls do with each domain of the devices that a node reaches in a pool.
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

// Blocked returns the devices of a node that a gang in a domain must not get: those that have the attribute, but not
// with the domain's value. Devices without the attribute are not blocked. pools are the pools of the node. The result
// lists device names by pool, in the order of the pool; it is nil if there are none, and always for labels.
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

// Within returns the node's pools without the devices that are Blocked. If nothing is blocked, it returns pools itself.
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

// outside returns the positions of the devices in a pool that the node reaches and that are Blocked; nil for labels.
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

// Names returns the domains of a device, none for labels. It caches nothing, so use it for few devices only.
func Names(key Key, device *inventory.Device) []string {
	if key.Attribute == "" {
		return nil
	}
	of := attribute.NewName(resourceapi.FullyQualifiedName(key.Attribute))
	return namesOf(&of, device)
}

// Members returns the positions of a pool's devices in a domain, reachable or not; nil if there are
// none, and always for labels. The set is shared and must not be changed.
func Members(key Key, domain string, pool *inventory.NodePool) bitset.Set {
	if key.Attribute == "" || pool.State != inventory.Complete {
		return nil
	}
	return columnOf(key.Attribute, pool).of(domain)
}
