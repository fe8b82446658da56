package allocator

import (
	"unsafe"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/recall"
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

// columns has the attribute as it is with and without support for lists. It is a
// recall.Finding.
type columns struct {
	plain, lists *column
}

// attributeValues is the kind of questions for the values of an attribute, by its name.
const attributeValues recall.Kind = "attribute"

// columnsFor refers to where the values of an attribute are remembered.
func columnsFor(name *attributeName) *recall.Reference[*columns] {
	return recall.NewReference[*columns](recall.Question{Kind: attributeValues, Text: name.full})
}

// columnOf returns the values of an attribute in a pool. known is columnsFor the attribute.
func columnOf(m *recall.Memory, known *recall.Reference[*columns], pool *inventory.NodePool, name *attributeName, lists bool) *column {
	subject := &pool.Content.Subject
	both, found := known.Get(m, subject)
	if !found {
		both = &columns{plain: newColumn(pool, name, false)}
		both.lists = both.plain
		if hasLists(pool, name) {
			both.lists = newColumn(pool, name, true)
		}
		both = known.Put(m, subject, both)
	}
	if lists {
		return both.lists
	}
	return both.plain
}

// Alike implements recall.Finding. Most devices do not have what a user makes up.
func (c *columns) Alike(other *columns) bool {
	return c == other || c.nothing() && other.nothing() && len(c.plain.of) == len(other.plain.of)
}

// Hash implements recall.Finding.
func (c *columns) Hash() uint64 {
	if c.nothing() {
		return uint64(len(c.plain.of))
	}
	return uint64(len(c.plain.of))<<32 | uint64(len(c.plain.values))<<16 | uint64(c.plain.published.Len())
}

// nothing reports whether no device has the attribute.
func (c *columns) nothing() bool { return c.plain.published.Empty() }

// Size implements recall.Finding.
func (c *columns) Size() int {
	size := int(unsafe.Sizeof(*c)) + c.plain.size()
	if c.lists != c.plain {
		size += c.lists.size()
	}
	return size
}

func (c *column) size() int {
	const list = int(unsafe.Sizeof([]valueID{}))
	size := int(unsafe.Sizeof(*c)) + int(unsafe.Sizeof(value{}))*cap(c.values) + list*(cap(c.of)+cap(c.having)) +
		8*(cap(c.published)+cap(c.strange))
	for _, v := range c.values {
		size += len(v.text)
	}
	for _, numbers := range c.of {
		size += max(8, int(unsafe.Sizeof(valueID(0)))*cap(numbers))
	}
	for _, devices := range c.having {
		size += 8 * cap(devices)
	}
	return size
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
