package inventory

import (
	"sync"
	"sync/atomic"
)

// Cache attaches derived values to an immutable value, so that they live exactly as long as it
// does. The zero value is ready to use.
type Cache struct {
	// few holds the first entries. Most caches have no others, and initialising a sync.Map takes
	// longer than deriving their values.
	few  atomic.Pointer[cached]
	many sync.Map
}

// cached is an entry of a cache, linked to those before it. count includes those.
type cached struct {
	key, value any
	before     *cached
	count      int
}

// fewCached is the maximum length of the linked list that find searches.
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

// Put stores value under key unless another goroutine was faster, and returns the stored value.
// Values are derived from something immutable, so all goroutines computed the same one.
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

// Cached returns the value that a cache holds under key. It derives and stores the value if there
// is none yet.
func Cached[T any](c *Cache, key any, derive func() T) T {
	value, found := c.Get(key)
	if !found {
		value = c.Put(key, derive())
	}
	return value.(T)
}
