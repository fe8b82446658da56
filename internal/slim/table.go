package slim

import "sync"

// table has contents by a text that stands for them. It is safe for concurrent use.
type table[T any] struct {
	most  int
	mutex sync.Mutex
	known map[string]T
}

// get returns what is known by the key, else what own returns, which is known from then on.
func (t *table[T]) get(key string, own func() T) T {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if found, ok := t.known[key]; ok {
		return found
	}
	if t.known == nil || len(t.known) >= t.most {
		t.known = make(map[string]T)
	}
	t.known[key] = own()
	return t.known[key]
}
