package inventory

import "sync"

// keptChanges bounds the memory of a change log. A reader that falls further behind must look at
// everything.
const keptChanges = 8192

// Changes is a log of the names of changed objects. A name is added after the new state can be
// read. So a reader that first asks for the position of the log and then reads the state gets a
// state at least as new as that position. The zero value is ready to use.
type Changes[T any] struct {
	mutex sync.Mutex
	ring  []T
	end   uint64 // number of entries ever added
}

// Add appends to the log.
func (c *Changes[T]) Add(changed T) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.ring) < keptChanges {
		c.ring = append(c.ring, changed)
	} else {
		c.ring[c.end%keptChanges] = changed
	}
	c.end++
}

// Since returns the entries added after a position, and the position of the end. complete is false
// if the log has dropped some of them.
func (c *Changes[T]) Since(position uint64) (changed []T, end uint64, complete bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.end-position > uint64(len(c.ring)) {
		return nil, c.end, false
	}
	for ; position < c.end; position++ {
		changed = append(changed, c.ring[position%keptChanges])
	}
	return changed, c.end, true
}

// End returns the position of the end.
func (c *Changes[T]) End() uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.end
}
