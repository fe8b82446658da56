package inventory

import (
	"sync"
	"sync/atomic"
)

// Cache attaches values that others derive from an immutable value to that
// value, so that they live exactly as long as it does. The zero value is ready.
type Cache struct {
	// few has the first entries. Most caches have no others, and to begin a sync.Map
	// takes longer than to derive what is in them.
	few  atomic.Pointer[cached]
	many sync.Map
}

// cached is an entry of a cache. It knows how many there are with those before it.
type cached struct {
	key, value any
	before     *cached
	count      int
}

// fewCached is how many entries are looked through for one of them.
const fewCached = 4

func (e *cached) find(key any) (any, bool) {
	for ; e != nil; e = e.before {
		if e.key == key {
			return e.value, true
		}
	}
	return nil, false
}

// Get returns the value stored under key, if there is one.
func (c *Cache) Get(key any) (any, bool) {
	few := c.few.Load()
	if value, found := few.find(key); found {
		return value, true
	}
	if few == nil || few.count < fewCached {
		return nil, false
	}
	return c.many.Load(key)
}

// Put stores value under key unless somebody was faster, and returns what is
// stored then. Because values are derived from something immutable, all
// competitors computed the same.
func (c *Cache) Put(key, value any) any {
	for {
		few := c.few.Load()
		if stored, found := few.find(key); found {
			return stored
		}
		count := 1
		if few != nil {
			count += few.count
		}
		if count > fewCached {
			stored, _ := c.many.LoadOrStore(key, value)
			return stored
		}
		if c.few.CompareAndSwap(few, &cached{key, value, few, count}) {
			return value
		}
	}
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
