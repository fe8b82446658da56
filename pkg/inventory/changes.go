package inventory

import "sync"

// keptChanges bounds the memory of a change log. Whoever falls further behind has to
// look at everything.
const keptChanges = 8192

// Changes is a log of what changed, by name. A name is added after the new state can be
// read. So whoever asks for the position of the log first and reads the state then has
// read a state that is at least as new as that position. The zero value is ready.
type Changes[T any] struct {
	mutex sync.Mutex
	ring  []T
	end   uint64 // how many were ever added
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

// Since returns what was added after a position, and the position of the end. complete
// is false if some of it is forgotten.
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
