package allocator

import (
	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// column has the values of one attribute for all devices of a pool. It is derived
// once for a version of the pool.
type column struct {
	// values are all that occur, each once, in the order of the devices.
	values []value
	// of has, by position of the device, indices into values: one, or several for a
	// list. It is empty for a value of a type that is not known.
	of [][]valueID
	// having are, by index into values, the devices that have the value.
	having []bitset.Set
	// published are the devices that have the attribute, strange those of them whose
	// value is of a type that is not known.
	published, strange bitset.Set
}

// columns has the attribute as it is with and without support for lists.
type columns struct {
	plain, lists *column
}

// columnOf returns the values of an attribute in a pool.
func columnOf(pool *inventory.NodePool, name *attributeName, lists bool) *column {
	cached, _ := pool.Content.Attributes.Get(name.full).(*columns)
	if cached == nil {
		both := &columns{plain: newColumn(pool, name, false)}
		both.lists = both.plain
		if hasLists(pool, name) {
			both.lists = newColumn(pool, name, true)
		}
		cached = pool.Content.Attributes.Put(name.full, both).(*columns)
	}
	if lists {
		return cached.lists
	}
	return cached.plain
}

func hasLists(pool *inventory.NodePool, name *attributeName) bool {
	for i := range pool.Devices {
		if attribute := name.lookup(&pool.Devices[i]); attribute != nil && len(listValues(attribute)) > 0 {
			return true
		}
	}
	return false
}

func newColumn(pool *inventory.NodePool, name *attributeName, lists bool) *column {
	n := len(pool.Devices)
	c := &column{of: make([][]valueID, n), published: bitset.New(n), strange: bitset.New(n)}
	numbers := make(map[value]valueID)
	for i := range pool.Devices {
		attribute := name.lookup(&pool.Devices[i])
		if attribute == nil {
			continue
		}
		c.published.Add(i)
		for _, v := range values(attribute, lists) {
			number, found := numbers[v]
			if !found {
				number = valueID(len(c.values))
				numbers[v] = number
				c.values, c.having = append(c.values, v), append(c.having, bitset.New(n))
			}
			c.of[i] = append(c.of[i], number)
			c.having[number].Add(i)
		}
		if len(c.of[i]) == 0 {
			c.strange.Add(i)
		}
	}
	return c
}
