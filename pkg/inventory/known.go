package inventory

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	opts   Options
	slices sync.Map // weak.Pointer[resourceapi.ResourceSlice] to *knownSlice
}

// NewKnown returns one that knows nothing yet.
func NewKnown(opts Options) *Known { return &Known{opts: opts} }

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
	key, fingerprint := weak.Make(published), fingerprintOf(published)
	if known, found := k.slices.Load(key); found && known.(*knownSlice).fingerprint == fingerprint {
		return known.(*knownSlice)
	}
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
	fresh := &knownSlice{Slice: &m.slice, fingerprint: fingerprint}
	if _, known := k.slices.Swap(key, fresh); !known {
		runtime.AddCleanup(published, forgetSlice, forgotten{weak.Make(k), key})
	}
	return fresh
}

// forgotten is a slice that nobody has any more.
type forgotten struct {
	known weak.Pointer[Known]
	slice weak.Pointer[resourceapi.ResourceSlice]
}

func forgetSlice(f forgotten) {
	if known := f.known.Value(); known != nil {
		known.slices.Delete(f.slice)
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
