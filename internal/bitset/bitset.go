// Package bitset holds sets of small non-negative integers, with one bit per integer. The allocator uses them
// for sets of devices: a member is a device's position in its pool as a node sees it.
package bitset

import (
	"iter"
	"math/bits"
)

const wordBits = 64

// A Set is a set of integers in [0, n), where n was given to New. Methods that combine two sets require the
// same n for both. Where a method says so, its argument may be nil for an empty set.
type Set []uint64

// New returns an empty set for members in [0, n).
func New(n int) Set {
	return make(Set, Words(n))
}

// Words returns the number of words of a set for members in [0, n).
func Words(n int) int { return (n + wordBits - 1) / wordBits }

// An Arena allocates sets from one piece of memory.
type Arena []uint64

// New returns an empty set for members in [0, n).
func (a *Arena) New(n int) Set {
	words := Words(n)
	if words > len(*a) {
		return New(n)
	}
	s := Set((*a)[:words:words])
	*a = (*a)[words:]
	return s
}

// Full returns the set of all members in [0, n).
func Full(n int) Set {
	s := New(n)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if rest := n % wordBits; rest != 0 {
		s[len(s)-1] = (uint64(1) << rest) - 1
	}
	return s
}

// Has reports whether i is a member.
func (s Set) Has(i int) bool { return s[i/wordBits]&(1<<(i%wordBits)) != 0 }

// Has reports whether i is a member of a set, which may be nil.
func Has(set Set, i int) bool { return set != nil && set.Has(i) }

// Add makes i a member.
func (s Set) Add(i int) { s[i/wordBits] |= 1 << (i % wordBits) }

// Remove removes i.
func (s Set) Remove(i int) { s[i/wordBits] &^= 1 << (i % wordBits) }

// Clone returns a copy that shares nothing with s.
func (s Set) Clone() Set {
	return append(make(Set, 0, len(s)), s...)
}

// And removes all members that are not in other.
func (s Set) And(other Set) {
	for i := range s {
		s[i] &= other[i]
	}
}

// AndNot removes all members of other, which may be nil.
func (s Set) AndNot(other Set) {
	for i := range other {
		s[i] &^= other[i]
	}
}

// Or adds all members of other, which may be nil.
func (s Set) Or(other Set) {
	for i := range other {
		s[i] |= other[i]
	}
}

// Copy makes s the same set as other.
func (s Set) Copy(other Set) { copy(s, other) }

// Len counts the members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether there is no member.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Next returns the smallest member that is at least from, or -1.
func (s Set) Next(from int) int {
	word := from / wordBits
	if word >= len(s) {
		return -1
	}
	w := s[word] >> (from % wordBits)
	if w != 0 {
		return from + bits.TrailingZeros64(w)
	}
	for word++; word < len(s); word++ {
		if s[word] != 0 {
			return word*wordBits + bits.TrailingZeros64(s[word])
		}
	}
	return -1
}

// All yields the members in ascending order. The set must not change meanwhile.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := s.Next(0); i >= 0; i = s.Next(i + 1) {
			if !yield(i) {
				return
			}
		}
	}
}

// LenWithout counts the members that are at least from and not in other, which may
// be nil.
func (s Set) LenWithout(other Set, from int) int {
	n := 0
	for word := from / wordBits; word < len(s); word++ {
		w := s[word]
		if other != nil {
			w &^= other[word]
		}
		if word == from/wordBits {
			w &= ^uint64(0) << (from % wordBits)
		}
		n += bits.OnesCount64(w)
	}
	return n
}

// RemoveBefore removes all members less than from.
func (s Set) RemoveBefore(from int) {
	word := min(from/wordBits, len(s))
	clear(s[:word])
	if word < len(s) {
		s[word] &= ^uint64(0) << (from % wordBits)
	}
}

// Sized returns an empty set for members in [0, n). It reuses the memory of s if that is large enough.
func (s Set) Sized(n int) Set {
	words := Words(n)
	if cap(s) < words {
		return New(n)
	}
	s = s[:words]
	clear(s)
	return s
}

// Intersects reports whether any member is also in other.
func (s Set) Intersects(other Set) bool {
	for i := range s {
		if s[i]&other[i] != 0 {
			return true
		}
	}
	return false
}
