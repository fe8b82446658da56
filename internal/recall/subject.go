package recall

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Subject is what something was found out about. It is a field of an immutable value, which
// must not be copied. The zero value is ready.
//
// A subject gets a place when something is first remembered about it, and gives it back
// when the garbage collector finds that nobody can ask any more. Places are small numbers,
// so that sheets are arrays.
type Subject struct {
	place atomic.Uint64 // a place, 0 for none
}

// place is a number below, and above it the serial number of whoever has it, which is
// never 0: what a sheet has about an earlier subject in this place is told by that.
type place = uint64

const serialShift = 32

func numberOf(p place) int { return int(uint32(p)) }

func serialOf(p place) uint32 { return uint32(p >> serialShift) }

// places are given out for all memories together.
var places struct {
	sync.Mutex
	free   []uint32
	next   uint32
	serial uint32
}

// settle returns the place of the subject, and gives it one if it has none.
func (s *Subject) settle() place {
	if p := s.place.Load(); p != 0 {
		return p
	}
	places.Lock()
	defer places.Unlock()
	if p := s.place.Load(); p != 0 {
		return p
	}
	number := places.next
	if last := len(places.free) - 1; last >= 0 {
		number, places.free = places.free[last], places.free[:last]
	} else {
		places.next++
	}
	places.serial++
	if places.serial == 0 {
		places.serial++
	}
	p := place(places.serial)<<serialShift | place(number)
	s.place.Store(p)
	runtime.AddCleanup(s, vacate, number)
	return p
}

func vacate(number uint32) {
	places.Lock()
	defer places.Unlock()
	places.free = append(places.free, number)
}
