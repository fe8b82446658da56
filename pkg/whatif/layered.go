package whatif

import (
	"iter"
	"maps"
	"slices"
)

// layered is an immutable set of objects by key: a base that many sets share, and the changes to
// it.
type layered[T any] struct {
	base   map[string]*T
	order  []string
	change map[string]*T // nil for removed objects
}

func newLayered[T any](all map[string]*T) layered[T] {
	return layered[T]{base: all, order: slices.Sorted(maps.Keys(all))}
}

// get returns an object, nil if there is none.
func (l *layered[T]) get(key string) *T {
	if one, changed := l.change[key]; changed {
		return one
	}
	return l.base[key]
}

// with returns the set with objects replaced or, if nil, removed.
func (l layered[T]) with(changes map[string]*T) layered[T] {
	if len(changes) == 0 {
		return l
	}
	change := make(map[string]*T, len(l.change)+len(changes))
	maps.Copy(change, l.change)
	maps.Copy(change, changes)
	l.change = change
	return l
}

// all yields the objects, sorted by key.
func (l *layered[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		var added []string
		for key, one := range l.change {
			if _, known := l.base[key]; !known && one != nil {
				added = append(added, key)
			}
		}
		slices.Sort(added)
		for _, key := range l.order {
			for len(added) > 0 && added[0] < key {
				if !yield(l.change[added[0]]) {
					return
				}
				added = added[1:]
			}
			if one := l.get(key); one != nil && !yield(one) {
				return
			}
		}
		for _, key := range added {
			if !yield(l.change[key]) {
				return
			}
		}
	}
}
