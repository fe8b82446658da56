package slim

import (
	"slices"
	"sync"
)

// table has contents by how they are encoded. It is safe for concurrent use.
type table[T any] struct {
	most  int
	mutex sync.Mutex
	known map[string]T
	// room is for the encoding of what is asked for.
	room []byte
}

// encodable is what has one encoding, as the generated types have.
type encodable interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// get returns what is known with the same content, else what own returns, which is known from then on.
func (t *table[T]) get(content encodable, own func() T) T {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	size := content.Size()
	t.room = slices.Grow(t.room[:0], size)[:size]
	if _, err := content.MarshalToSizedBuffer(t.room); err != nil {
		return own()
	}
	if found, ok := t.known[string(t.room)]; ok {
		return found
	}
	if t.known == nil || len(t.known) >= t.most {
		t.known = make(map[string]T)
	}
	value := own()
	t.known[string(t.room)] = value
	return value
}
