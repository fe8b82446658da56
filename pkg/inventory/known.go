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

// Known caches the values that snapshots derive from slices, so that the next snapshot with the
// same slices need not derive it again. A slice is the same if it is the same object with the same
// fingerprint: all that can be seen without reading attributes and capacities is unchanged. An
// entry goes away with its slice, and does not keep the slice from being freed. So there are never
// more entries than the callers have slices.
//
// Everything derived from the pools of a Known is derived in the same way. A caller that evaluates
// CEL differently, or with other features, must use another Known.
type Known struct {
	opts Options
	self weak.Pointer[Known]

	mutex sync.Mutex
	// slices is keyed by the address of the object. The fingerprint tells whether the object at
	// that address is still the same slice.
	slices map[uintptr]*knownSlice
}

// NewKnown returns an empty Known.
func NewKnown(opts Options) *Known {
	k := &Known{opts: opts, slices: make(map[uintptr]*knownSlice)}
	k.self = weak.Make(k)
	return k
}

// knownSlice holds what is known of a slice. It refers to a copy of the object, but never to the
// object itself, which would then never be freed.
//
// It must not share its memory with the Slice: pools refer to the Slice, and would keep the last
// pool of each of their slices, and so every pool that ever existed.
type knownSlice struct {
	*Slice
	fingerprint uint64
	// pool is the last pool whose first slice is this one.
	pool atomic.Pointer[Pool]
}

// sliceMemory holds all memory of a known slice besides its devices, so that it is allocated at
// once: allocation takes most of the time.
type sliceMemory struct {
	slice   Slice
	object  resourceapi.ResourceSlice
	content Content
	node    string
}

// slice returns the entry of a slice, and creates it if needed.
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
	// Copy all that the fingerprint covers, so that its memory stays in use: freed memory could be
	// reused for other objects at the same address.
	m := &sliceMemory{object: *published}
	copied := &m.object
	copied.Spec.Devices = slices.Clone(published.Spec.Devices)
	copied.Spec.SharedCounters = slices.Clone(published.Spec.SharedCounters)
	if node := copied.Spec.NodeName; node != nil {
		m.node = *node
		copied.Spec.NodeName = &m.node // It may point into the slice, if it is the name of the pool or node.
	}
	m.slice.init(copied, &m.content)
	return &knownSlice{Slice: &m.slice, fingerprint: fingerprint}
}

// forgotten is the former address of a slice that was freed.
type forgotten struct {
	known   weak.Pointer[Known]
	address uintptr
}

// forgetSlice may run late, when another slice already has that address. That slice then gets a new
// entry when it is next looked up.
func forgetSlice(f forgotten) {
	if known := f.known.Value(); known != nil {
		known.mutex.Lock()
		defer known.mutex.Unlock()
		delete(known.slices, f.address)
	}
}

// pool returns the pool that consists of the given slices, at least one. Slices of the same name
// are tried in the given order.
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
