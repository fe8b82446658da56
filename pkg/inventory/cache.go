package inventory

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Cache attaches values that others derive from an immutable value to that
// value, so that they live exactly as long as it does. The zero value is ready.
type Cache struct {
	entries sync.Map
}

// Get returns the value stored under key, if there is one.
func (c *Cache) Get(key any) (any, bool) {
	return c.entries.Load(key)
}

// Put stores value under key unless somebody was faster, and returns what is
// stored then. Because values are derived from something immutable, all
// competitors computed the same.
func (c *Cache) Put(key, value any) any {
	stored, _ := c.entries.LoadOrStore(key, value)
	return stored
}

// Cached returns what a cache holds under key, and derives and stores it if that is
// nothing yet.
func Cached[T any](c *Cache, key any, derive func() T) T {
	value, found := c.Get(key)
	if !found {
		value = c.Put(key, derive())
	}
	return value.(T)
}

// maxEntries bounds a Table: users choose expressions, and could choose a new one
// for each pod.
const maxEntries = 1000

// Table is a Cache for few keys, each of which is stored once. Reading takes no lock and
// no memory. The zero value is ready.
type Table[K comparable] struct {
	mutex   sync.Mutex
	entries atomic.Pointer[map[K]any]
}

// Get returns the value stored under key, or nil.
func (t *Table[K]) Get(key K) any {
	if entries := t.entries.Load(); entries != nil {
		return (*entries)[key]
	}
	return nil
}

// Put is like Cache.Put. A table that is full starts anew.
func (t *Table[K]) Put(key K, value any) any {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if stored := t.Get(key); stored != nil {
		return stored
	}
	entries := make(map[K]any)
	if before := t.entries.Load(); before != nil && len(*before) < maxEntries {
		entries = maps.Clone(*before)
	}
	entries[key] = value
	t.entries.Store(&entries)
	return value
}
