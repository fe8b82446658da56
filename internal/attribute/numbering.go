package attribute

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Numbering numbers the values of an attribute consistently across all pools of a search.
type Numbering struct {
	columns []*Column // by pool, nil for pools that are not complete
	// ids holds, by pool, the numbers of the column's values; nil if they equal those of the column.
	ids [][]ValueID
	// Values are the values by number.
	Values  []Value
	numbers map[Value]ValueID
	scratch []ValueID
	// counts holds, by ValueID, the number of devices in all pools with the value; it is empty until Holders
	// is called.
	counts []int
}

// Start resets the numbering for pools, and reuses the memory of an earlier search. known must come from
// ColumnsFor the attribute.
func (n *Numbering) Start(m *memo.Memory, known *memo.Reference[*Columns], name *Name, lists bool, pools []*inventory.NodePool) {
	n.columns, n.ids = emptied(n.columns, len(pools)), emptied(n.ids, len(pools))
	n.Values, n.counts = nil, n.counts[:0]
	clear(n.numbers)
	for i, pool := range pools {
		if pool.State != inventory.Complete {
			continue
		}
		column := ColumnOf(m, known, pool, name, lists)
		n.columns[i] = column
		if len(n.Values) == 0 {
			// Clipped, so that an append never writes into the column's memory.
			n.Values = slices.Clip(column.Values)
			continue
		}
		for _, v := range column.Values {
			n.ids[i] = append(n.ids[i], n.Number(v))
		}
	}
}

// Number returns the number of a value, and assigns one to a new value.
func (n *Numbering) Number(v Value) ValueID {
	if len(n.numbers) == 0 {
		if n.numbers == nil {
			n.numbers = make(map[Value]ValueID)
		}
		for i, known := range n.Values {
			n.numbers[known] = ValueID(i)
		}
	}
	number, found := n.numbers[v]
	if !found {
		number = ValueID(len(n.Values))
		n.Values = append(n.Values, v)
		n.numbers[v] = number
	}
	return number
}

// Holders returns the number of devices that publish a value, available or not.
func (n *Numbering) Holders(v ValueID) int {
	if len(n.counts) == 0 {
		n.counts = emptied(n.counts, len(n.Values))
		for pool, column := range n.columns {
			if column != nil {
				n.addCounts(pool, column)
			}
		}
	}
	if int(v) >= len(n.counts) {
		return 0 // A derived attribute added the value.
	}
	return n.counts[v]
}

func (n *Numbering) addCounts(pool int, column *Column) {
	for local, devices := range column.Having {
		id := ValueID(local)
		if ids := n.ids[pool]; ids != nil {
			id = ids[local]
		}
		n.counts[id] += devices.Len()
	}
}

// At returns the values that a device publishes, and whether it has the attribute. The values are valid until
// the next call.
func (n *Numbering) At(pool, device int) ([]ValueID, bool) {
	column := n.columns[pool]
	own := column.Of[device]
	if ids := n.ids[pool]; ids != nil && len(own) > 0 {
		n.scratch = n.scratch[:0]
		for _, v := range own {
			n.scratch = append(n.scratch, ids[v])
		}
		own = n.scratch
	}
	return own, column.Published.Has(device)
}

// HoldersIn returns the devices of a pool with a value, or nil if there are none.
func (n *Numbering) HoldersIn(pool int, v ValueID) bitset.Set {
	column := n.columns[pool]
	if column == nil {
		return nil
	}
	if n.ids[pool] == nil {
		if int(v) < len(column.Having) {
			return column.Having[v]
		}
		return nil
	}
	for local, id := range n.ids[pool] {
		if id == v {
			return column.Having[local]
		}
	}
	return nil
}

// HasStrange reports whether any device has a value of an unknown type.
func (n *Numbering) HasStrange() bool {
	for _, column := range n.columns {
		if column != nil && !column.Strange.Empty() {
			return true
		}
	}
	return false
}

// HaveCommon reports whether two devices have a value in common.
func (n *Numbering) HaveCommon(poolA, a, poolB, b int) bool {
	idsA, idsB := n.ids[poolA], n.ids[poolB]
	for _, x := range n.columns[poolA].Of[a] {
		if idsA != nil {
			x = idsA[x]
		}
		for _, y := range n.columns[poolB].Of[b] {
			if idsB != nil {
				y = idsB[y]
			}
			if x == y {
				return true
			}
		}
	}
	return false
}

// emptied returns a zeroed list of the given length, in the same memory if possible.
func emptied[T any](list []T, length int) []T {
	if cap(list) < length {
		return make([]T, length)
	}
	list = list[:length]
	clear(list)
	return list
}
