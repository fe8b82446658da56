package inventory

import "sync"

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
