package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Subject is the thing that findings are about. It is a field of an immutable value and must not be copied.
// The zero value is ready to use.
//
// A subject gets a slot when something is first remembered about it. The garbage collector returns the slot
// when the subject is unreachable. Slots are small numbers, so that tables are arrays.
type Subject struct {
	slot atomic.Uint64 // a slot, 0 for none
}

// A slot has a number in its low bits and the serial number of its subject, never 0, above. The serial
// number distinguishes the subject from earlier subjects with the same number.
type slot = uint64

const serialShift = 32

func numberOf(p slot) int { return int(uint32(p)) }

func serialOf(p slot) uint32 { return uint32(p >> serialShift) }

// slots assigns slots for all memories together.
var slots struct {
	sync.Mutex
	free   []uint32
	next   uint32
	serial uint32
}

// settle returns the slot of the subject, and assigns one if it has none.
func (s *Subject) settle() slot {
	if p := s.slot.Load(); p != 0 {
		return p
	}
	slots.Lock()
	defer slots.Unlock()
	if p := s.slot.Load(); p != 0 {
		return p
	}
	number := slots.next
	if last := len(slots.free) - 1; last >= 0 {
		number, slots.free = slots.free[last], slots.free[:last]
	} else {
		slots.next++
	}
	slots.serial++
	if slots.serial == 0 {
		slots.serial++
	}
	p := slot(slots.serial)<<serialShift | slot(number)
	s.slot.Store(p)
	runtime.AddCleanup(s, vacate, number)
	return p
}

func vacate(number uint32) {
	slots.Lock()
	defer slots.Unlock()
	slots.free = append(slots.free, number)
}
