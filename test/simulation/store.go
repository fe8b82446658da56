package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// object is one version of an object. It does not change after it was stored.
type object struct {
	fields map[string]any
	// before is the previous version, until this one is decoded.
	before *object
	// The other forms are made on demand: JSON, the Go type, the encoded bytes of that, and the lines of watches.
	raw     []byte
	decoded runtime.Object
	encoded []byte
	lines   map[lineKind][]byte
}

// lineKind identifies a line of a watch by its event and its encoding.
type lineKind struct {
	event  string
	binary bool
}

// json returns the object as JSON. The store's mutex is held.
func (o *object) json() []byte {
	if o.raw == nil {
		o.raw = encode(o.fields)
	}
	return o.raw
}

// at returns the last state of a deleted object, with the version of its deletion.
func (o *object) at(version int64) *object {
	fields, metadata := maps.Clone(o.fields), maps.Clone(o.metadata())
	metadata["resourceVersion"] = strconv.FormatInt(version, 10)
	fields["metadata"] = metadata
	return &object{fields: fields, before: o}
}

func (o *object) metadata() map[string]any {
	m, _ := o.fields["metadata"].(map[string]any)
	return m
}

func (o *object) text(name string) string {
	s, _ := o.metadata()[name].(string)
	return s
}

func (o *object) uid() types.UID { return types.UID(o.text("uid")) }

func (o *object) finalizers() []any {
	f, _ := o.metadata()["finalizers"].([]any)
	return f
}

// event is one change of a collection.
type event struct {
	version int64
	kind    string // ADDED, MODIFIED or DELETED
	was     *object
	now     *object // of a deletion the last version, with the resource version of the deletion
}

// collection has the objects of one resource, and its history.
type collection struct {
	resource Resource
	objects  map[types.NamespacedName]*object
	history  []event
	// trimmed is the version of the last event that was removed from the history.
	trimmed int64
	watches map[*watch]struct{}
	// order holds the keys in sorted order, if that is known.
	order []types.NamespacedName
}

// store stands for etcd: all collections, and one counter of versions.
type store struct {
	mutex       sync.Mutex
	version     int64
	uids        int64
	collections map[string]*collection
	// changed gets each change that is stored, with the mutex held.
	changed func(*collection, event)
}

func newStore(resources []Resource) *store {
	s := &store{version: 1, collections: map[string]*collection{}}
	for _, r := range resources {
		s.collections[r.Group+"/"+r.Version+"/"+r.Name] = &collection{
			resource: r, objects: map[types.NamespacedName]*object{}, watches: map[*watch]struct{}{},
		}
	}
	return s
}

// put stores a version of an object and sends it to the watches; was is the previous version (nil if there is none).
func (s *store) put(c *collection, key types.NamespacedName, was *object, fields map[string]any) *object {
	s.version++
	fields["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatInt(s.version, 10)
	now := &object{fields: fields, before: was}
	if was != nil {
		was.before = nil
	}
	kind := "MODIFIED"
	if was == nil {
		kind, c.order = "ADDED", nil
	}
	c.objects[key] = now
	s.tell(c, event{s.version, kind, was, now})
	return now
}

func (s *store) remove(c *collection, key types.NamespacedName, was *object) *object {
	s.version++
	last := was.at(s.version)
	delete(c.objects, key)
	c.order = nil
	s.tell(c, event{s.version, "DELETED", was, last})
	return last
}

func (s *store) tell(c *collection, e event) {
	c.history = append(c.history, e)
	if s.changed != nil {
		s.changed(c, e)
	}
	for w := range c.watches {
		w.offer(e)
	}
}

func (s *store) stamp(fields map[string]any, now time.Time) {
	metadata := fields["metadata"].(map[string]any)
	s.uids++
	metadata["uid"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", s.uids)
	metadata["creationTimestamp"] = now.UTC().Format(time.RFC3339)
	if prefix, ok := metadata["generateName"].(string); ok && metadata["name"] == nil {
		metadata["name"] = fmt.Sprintf("%s%05d", prefix, s.uids)
	}
}

// sorted returns the objects in the order of lists.
func (c *collection) sorted() []*object {
	if len(c.order) != len(c.objects) {
		c.order = slices.SortedFunc(maps.Keys(c.objects), func(a, b types.NamespacedName) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	all := make([]*object, len(c.order))
	for i, key := range c.order {
		all[i] = c.objects[key]
	}
	return all
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
