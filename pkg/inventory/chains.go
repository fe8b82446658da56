package inventory

import "math/bits"

// chains finds the positions in a list whose elements have a given key: the first one, and from
// there the next. It suits lists with few lookups, because it allocates no memory per key.
type chains struct {
	slots []chainSlot // hash table; its length is a power of two, and at least a third of it is free
	next  []int32     // by position: the next position with the same key, -1 if there is none
}

// chainSlot holds the first position with a key, and some bits of the key's hash.
type chainSlot struct {
	hash  uint32
	first int32 // first position plus one; 0 means that the slot is free
}

func newChains(n int) *chains {
	return &chains{slots: make([]chainSlot, 1<<bits.Len(uint(n+n/2))), next: make([]int32, n)}
}

// addFirst puts a position before all others with the same key. same reports whether a position has
// that key.
func (c *chains) addFirst(position int, hash uint64, same func(int) bool) {
	slot := c.slot(hash, same)
	c.next[position] = slot.first - 1
	slot.hash, slot.first = uint32(hash), int32(position)+1
}

// first returns the first position with a key, -1 if there is none.
func (c *chains) first(hash uint64, same func(int) bool) int {
	return int(c.slot(hash, same).first) - 1
}

// slot returns the slot of a key, or a free one if the key is absent.
func (c *chains) slot(hash uint64, same func(int) bool) *chainSlot {
	mask := uint64(len(c.slots) - 1)
	for i := (hash >> 32) & mask; ; i = (i + 1) & mask {
		slot := &c.slots[i]
		if slot.first == 0 || slot.hash == uint32(hash) && same(int(slot.first)-1) {
			return slot
		}
	}
}
