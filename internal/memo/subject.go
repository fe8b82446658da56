package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Subject is the thing that findings are about. It is a field of an immutable value and must not be copied.
// The zero value is ready to use.
//
// A subject gets a place when something is first remembered about it. The garbage collector returns the place
// when the subject is unreachable. Places are small numbers, so that tables are arrays.
type Subject struct {
	place atomic.Uint64 // a place, 0 for none
}

// A place has a number in its low bits and the serial number of its subject, never 0, above. The serial
// number distinguishes the subject from earlier subjects with the same number.
type place = uint64

const serialShift = 32

func numberOf(p place) int { return int(uint32(p)) }

func serialOf(p place) uint32 { return uint32(p >> serialShift) }

// places assigns places for all memories together.
var places struct {
	sync.Mutex
	free   []uint32
	next   uint32
	serial uint32
}

// settle returns the place of the subject, and assigns one if it has none.
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
