package slim

import (
	"crypto/sha256"
	"runtime"
	"slices"
	"sync"
	"unsafe"
	"weak"
)

// table finds contents that objects have, by how they are encoded. It keeps none of them: an entry, of a fixed size, goes with the last
// object that has the content. It is safe for concurrent use.
type table[T any] struct {
	mutex sync.Mutex
	known map[digest]weak.Pointer[T]
	// room is for the encoding of what is asked for.
	room []byte
}

// digest stands for an encoding. It is one for which nobody finds two encodings, because users choose them.
type digest = [sha256.Size]byte

// mostRoom is how many bytes of room stay between two questions.
const mostRoom = 64 << 10

// encodable is what has one encoding, as the generated types have.
type encodable interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// get returns what another object has with the same content, else own, which others get from then on.
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

// forget removes an entry whose content is gone, unless another object came with the same content meanwhile.
func (t *table[T]) forget(key digest) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.known[key].Value() == nil {
		delete(t.known, key)
	}
}

// list returns a list with the content of own that shares its memory with those of others. The content is that list and nothing else.
func list[T any](t *table[T], content encodable, own []T) []T {
	if len(own) == 0 {
		return own
	}
	return unsafe.Slice(t.get(content, &own[0]), len(own))
}
