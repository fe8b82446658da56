package factory

import (
	"crypto/sha256"
	"runtime"
	"slices"
	"sync"
	"unsafe"
	"weak"
)

// table finds equal contents of objects by their encoding. It does not keep them alive: an entry, of a fixed size, is
// removed with the last object that has the content. It is safe for concurrent use.
type table[T any] struct {
	mutex sync.Mutex
	known map[digest]weak.Pointer[T]
	// room is a reusable buffer for encodings.
	room []byte
}

// digest identifies an encoding. It must resist collisions, because users choose the contents.
type digest = [sha256.Size]byte

// mostRoom limits the bytes of room that are kept between calls.
const mostRoom = 64 << 10

// encodable is a type with a deterministic encoding, like the generated types.
type encodable interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// get returns the equal content of another object if there is one, otherwise own, which others get from then on.
func (t *table[T]) get(content encodable, own *T) *T {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	size := content.Size()
	room := slices.Grow(t.room[:0], size)[:size]
	if cap(room) <= mostRoom {
		t.room = room
	}
	if _, err := content.MarshalToSizedBuffer(room); err != nil {
		return own
	}
	key := sha256.Sum256(room)
	if found := t.known[key].Value(); found != nil {
		return found
	}
	if t.known == nil {
		t.known = make(map[digest]weak.Pointer[T])
	}
	t.known[key] = weak.Make(own)
	runtime.AddCleanup(own, t.forget, key)
	return own
}

// forget removes an entry whose content is gone, unless another object with that content has arrived.
func (t *table[T]) forget(key digest) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.known[key].Value() == nil {
		delete(t.known, key)
	}
}

// list returns a list equal to own in shared memory. content must be that list and nothing else.
func list[T any](t *table[T], content encodable, own []T) []T {
	if len(own) == 0 {
		return own
	}
	return unsafe.Slice(t.get(content, &own[0]), len(own))
}
