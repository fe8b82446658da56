package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// deltasKept bounds the deltas that are kept for slow browsers. Browsers that are further behind read the whole state
// again.
const deltasKept = 64

// Map is the state that browsers see. It is safe for concurrent use.
type Map struct {
	source string
	// layoutsAtMost bounds the layouts that are kept. Beyond it, layouts are renumbered and browsers must read
	// everything again.
	layoutsAtMost int

	mu        sync.Mutex
	snapshot  *whatif.Snapshot
	version   uint64
	meta      Meta
	published uint64
	layouts   layouts
	names     []string // of the tiles, in their order
	tiles     map[string]json.RawMessage
	// changed is closed when there is a new version.
	deltas [][]byte
	// changed is closed when there is another version.
	changed chan struct{}
}

// NewMap returns an empty map. source describes the cluster or dump for people.
func NewMap(source string) *Map {
	return &Map{
		source: source, layoutsAtMost: 20_000, changed: make(chan struct{}), tiles: make(map[string]json.RawMessage),
		layouts: layouts{numbers: make(map[string]int), all: []Layout{}},
		meta:    Meta{Source: source, Classes: []string{}, Attributes: []string{}, Namespaces: []string{}, Waiting: []Waiting{}, Problems: []string{}},
	}
}

// drawn is a version that is not visible yet.
type drawn struct {
	snapshot  *whatif.Snapshot
	meta      Meta
	published uint64
	layouts   layouts
	names     []string
	tiles     map[string]json.RawMessage
	delta     Delta
	// Whether the layouts have new numbers.
	anew bool
}

// Show replaces the contents of the map. Calls must not overlap.
func (m *Map) Show(s *whatif.Snapshot) error {
	m.mu.Lock()
	d, before := drawn{snapshot: s, layouts: m.layouts}, m.tiles
	m.mu.Unlock()
	if d.anew = len(d.layouts.all) > m.layoutsAtMost; d.anew {
		d.layouts, before = layouts{numbers: make(map[string]int)}, nil
	}
	from := sheets(s)
	drawing := newDrawing(s, &d.layouts)
	d.names, d.tiles = make([]string, len(from)), make(map[string]json.RawMessage, len(from))
	for i, one := range from {
		encoded, err := json.Marshal(drawing.tile(one))
		if err != nil {
			return fmt.Errorf("encode tile %s: %w", one.name, err)
		}
		if old, same := before[one.name]; same && bytes.Equal(old, encoded) {
			encoded = old
		} else {
			d.delta.Tiles = append(d.delta.Tiles, encoded)
		}
		d.names[i], d.tiles[one.name] = one.name, encoded
	}
	for name := range before {
		if d.tiles[name] == nil {
			d.delta.Gone = append(d.delta.Gone, name)
		}
	}
	slices.Sort(d.delta.Gone)
	d.meta, d.published = describe(s, from), published(s)
	return m.exchange(&d)
}

// exchange publishes a new version, unless nothing has changed.
func (m *Map) exchange(d *drawn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshot = d.snapshot
	d.meta.Source, d.meta.Published = m.source, m.meta.Published
	if m.version == 0 || d.published != m.published {
		d.meta.Published++
	}
	sameMeta := reflect.DeepEqual(d.meta, m.meta)
	if m.version > 0 && sameMeta && len(d.delta.Tiles)+len(d.delta.Gone) == 0 {
		return nil
	}
	if !sameMeta {
		d.delta.Meta = &d.meta
	}
	if d.anew {
		// No delta leads from the browsers' version to this one.
		m.deltas, m.layouts = nil, layouts{}
		m.version++
	}
	d.delta.Version, d.delta.Layouts = m.version+1, d.layouts.all[len(m.layouts.all):]
	encoded, err := json.Marshal(d.delta)
	if err != nil {
		return fmt.Errorf("encode what changed: %w", err)
	}
	m.meta, m.published, m.layouts, m.names, m.tiles, m.version = d.meta, d.published, d.layouts, d.names, d.tiles, d.delta.Version
	m.deltas = append(m.deltas, encoded)
	if len(m.deltas) > deltasKept {
		m.deltas = slices.Clone(m.deltas[1:])
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

// State returns the whole current state.
func (m *Map) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := State{Version: m.version, Meta: m.meta, Layouts: m.layouts.all, Tiles: make([]json.RawMessage, len(m.names))}
	for i, name := range m.names {
		state.Tiles[i] = m.tiles[name]
	}
	return state
}

// Snapshot returns the snapshot that questions are about, nil before the first Show.
func (m *Map) Snapshot() *whatif.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot
}

// since returns the encoded deltas after a version, and a channel that is closed when there are more. If ok is false,
// the deltas are no longer kept and the browser must read the whole state again.
func (m *Map) since(version uint64) (deltas [][]byte, more <-chan struct{}, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	behind := m.version - version
	if version > m.version || behind > uint64(len(m.deltas)) {
		return nil, m.changed, false
	}
	return m.deltas[len(m.deltas)-int(behind):], m.changed, true
}
