package attribute

import (
	"unsafe"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Column holds the values of one attribute for all devices of a pool. It is derived once per version of the
// pool.
type Column struct {
	// Values are the distinct values, in the order of the devices.
	Values []Value
	// Of holds, by position of the device, indices into Values: one, or several for a list. It is empty for a
	// value of an unknown type.
	Of [][]ValueID
	// Having holds, by index into Values, the devices that have the value.
	Having []bitset.Set
	// Published are the devices that have the attribute. Strange are those of them whose value has an unknown
	// type.
	Published, Strange bitset.Set
}

// Columns holds the column of an attribute with and without support for lists. It is a memo.Finding.
type Columns struct {
	plain, lists *Column
}

// attributeValues is the kind of the questions for the values of an attribute; their text is its name.
const attributeValues memo.Kind = "attribute"

// ColumnsFor returns the reference to the remembered values of an attribute.
func ColumnsFor(name *Name) *memo.Reference[*Columns] {
	return memo.NewReference[*Columns](memo.Key{Kind: attributeValues, Text: name.Full})
}

// ColumnOf returns the values of an attribute in a pool. known must come from ColumnsFor the attribute.
func ColumnOf(m *memo.Memory, known *memo.Reference[*Columns], pool *inventory.NodePool, name *Name, lists bool) *Column {
	subject := &pool.Content.Subject
	both, found := known.Get(m, subject)
	if !found {
		both = &Columns{plain: newColumn(pool, name, false)}
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

// Alike implements memo.Finding. Columns without values are alike, because most devices lack an attribute
// that a user invents.
func (c *Columns) Alike(other *Columns) bool {
	return c == other || c.nothing() && other.nothing() && len(c.plain.Of) == len(other.plain.Of)
}

// Hash implements memo.Finding.
func (c *Columns) Hash() uint64 {
	if c.nothing() {
		return uint64(len(c.plain.Of))
	}
	return uint64(len(c.plain.Of))<<32 | uint64(len(c.plain.Values))<<16 | uint64(c.plain.Published.Len())
}

// nothing reports whether no device has the attribute.
func (c *Columns) nothing() bool { return c.plain.Published.Empty() }

// Size implements memo.Finding.
func (c *Columns) Size() int {
	size := int(unsafe.Sizeof(*c)) + c.plain.size()
	if c.lists != c.plain {
		size += c.lists.size()
	}
	return size
}

func (c *Column) size() int {
	const list = int(unsafe.Sizeof([]ValueID{}))
	size := int(unsafe.Sizeof(*c)) + int(unsafe.Sizeof(Value{}))*cap(c.Values) + list*(cap(c.Of)+cap(c.Having)) +
		8*(cap(c.Published)+cap(c.Strange))
	for _, v := range c.Values {
		size += len(v.text)
	}
	for _, numbers := range c.Of {
		size += max(8, int(unsafe.Sizeof(ValueID(0)))*cap(numbers))
	}
	for _, devices := range c.Having {
		size += 8 * cap(devices)
	}
	return size
}

func hasLists(pool *inventory.NodePool, name *Name) bool {
	for i := range pool.Devices {
		if attribute := name.Lookup(&pool.Devices[i]); attribute != nil && len(ListValues(attribute)) > 0 {
			return true
		}
	}
	return false
}

func newColumn(pool *inventory.NodePool, name *Name, lists bool) *Column {
	n := len(pool.Devices)
	c := &Column{Of: make([][]ValueID, n), Published: bitset.New(n), Strange: bitset.New(n)}
	numbers := make(map[Value]ValueID)
	for i := range pool.Devices {
		attribute := name.Lookup(&pool.Devices[i])
		if attribute == nil {
			continue
		}
		c.Published.Add(i)
		for _, v := range Values(attribute, lists) {
			number, found := numbers[v]
			if !found {
				number = ValueID(len(c.Values))
				numbers[v] = number
				c.Values, c.Having = append(c.Values, v), append(c.Having, bitset.New(n))
			}
			c.Of[i] = append(c.Of[i], number)
			c.Having[number].Add(i)
		}
		if len(c.Of[i]) == 0 {
			c.Strange.Add(i)
		}
	}
	return c
}
