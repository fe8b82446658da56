package inventory

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	resourceapi "k8s.io/api/resource/v1"
)

// Known keeps what snapshots found out about slices, so that the next snapshot with the
// same slices need not do it again. A slice is the same if it is the same object and if
// what can be seen without reading attributes and capacities has not changed, see
// fingerprint. What is known of a slice goes with it: nothing here keeps a slice from
// being freed, so there never is more than the callers have slices.
//
// Everything derived from the pools of a Known is derived in the same way: whoever
// evaluates CEL in another way, or with other features, takes another one.
type Known struct {
	opts Options
	self weak.Pointer[Known]

	mutex sync.Mutex
	// slices are by the address of the object. That only says where to look: whether the
	// object there still is the slice, its fingerprint says.
	slices map[uintptr]*knownSlice
}

// NewKnown returns one that knows nothing yet.
func NewKnown(opts Options) *Known {
	k := &Known{opts: opts, slices: make(map[uintptr]*knownSlice)}
	k.self = weak.Make(k)
	return k
}

// knownSlice is what is known of a slice. It refers to a copy of the object and to what
// that refers to, but never to the object itself, which would keep it for ever.
//
// It must not share its memory with the Slice: pools refer to that, and would keep the last
// pool of each of their slices, and so every pool that there ever was.
type knownSlice struct {
	*Slice
	fingerprint uint64
	// pool is the last pool of which the slice was the first.
	pool atomic.Pointer[Pool]
}

// sliceMemory is all that a known slice takes besides its devices, in one piece: most of
// the time goes into taking memory.
type sliceMemory struct {
	slice   Slice
	object  resourceapi.ResourceSlice
	content Content
	node    string
}

// slice returns what is known of a slice.
func (k *Known) slice(published *resourceapi.ResourceSlice) *knownSlice {
	address, fingerprint := uintptr(unsafe.Pointer(published)), fingerprintOf(published)
	k.mutex.Lock()
	known := k.slices[address]
	k.mutex.Unlock()
	if known != nil && known.fingerprint == fingerprint {
		return known
	}
	fresh := newKnownSlice(published, fingerprint)
	k.mutex.Lock()
	_, followed := k.slices[address]
	k.slices[address] = fresh
	k.mutex.Unlock()
	if !followed {
		runtime.AddCleanup(published, forgetSlice, forgotten{k.self, address})
	}
	return fresh
}

func newKnownSlice(published *resourceapi.ResourceSlice, fingerprint uint64) *knownSlice {
	// What the fingerprint goes by must stay where it is: memory that is freed can be
	// somebody else's at the same address.
	m := &sliceMemory{object: *published}
	copied := &m.object
	copied.Spec.Devices = slices.Clone(published.Spec.Devices)
	copied.Spec.SharedCounters = slices.Clone(published.Spec.SharedCounters)
	if node := copied.Spec.NodeName; node != nil {
		m.node = *node
		copied.Spec.NodeName = &m.node // It may point into the slice: its name is the pool's, or the node's.
	}
	m.slice.init(copied, &m.content)
	return &knownSlice{Slice: &m.slice, fingerprint: fingerprint}
}

// forgotten is where a slice was that nobody has any more.
type forgotten struct {
	known   weak.Pointer[Known]
	address uintptr
}

// forgetSlice may be late: another slice may be there by then. It then becomes known anew.
func forgetSlice(f forgotten) {
	if known := f.known.Value(); known != nil {
		known.mutex.Lock()
		defer known.mutex.Unlock()
		delete(known.slices, f.address)
	}
}

// pool returns the pool that some slices make up, at least one. Their order is that in
// which slices of the same name are tried.
func (k *Known) pool(members []*knownSlice) *Pool {
	last := members[0].pool.Load()
	if last != nil && slices.EqualFunc(last.slices, members, func(s *Slice, m *knownSlice) bool { return s == m.Slice }) {
		return last
	}
	pool := newPool(members[0].poolID(), nil, scopedRules{}, k.opts)
	pool.slices = make([]*Slice, len(members))
	for i, member := range members {
		pool.slices[i] = member.Slice
	}
	pool.look()
	members[0].pool.Store(pool)
	return pool
}
