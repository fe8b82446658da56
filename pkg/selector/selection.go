package selector

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"unsafe"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
)

// A Selection is the result of a set, or of a single expression, for the devices of a pool or a slice. It is immutable.
type Selection struct {
	// Matches are the devices that match all selectors.
	Matches bitset.Set
	// Failed are the devices for which a selector could not be evaluated.
	Failed bitset.Set

	// failures are the distinct failures; failure holds, by position, the index of each failed device's
	// failure. Both are nil if no device failed.
	failures []failure
	failure  []uint16
}

// failure is the reason why a selector could not be evaluated.
type failure struct {
	expression int   // index in the set
	err        error // wraps ErrCompile or ErrRuntime
}

// newSelection returns a selection of all devices, or of none.
func newSelection(devices int, all bool) *Selection {
	s := &Selection{Matches: bitset.New(devices), Failed: bitset.New(devices)}
	if all {
		s.Matches = bitset.Full(devices)
	}
	return s
}

// fail records why a device failed. The same error must always be the same value.
func (s *Selection) fail(device, devices int, f failure) {
	s.Failed.Add(device)
	number := slices.Index(s.failures, f)
	if number < 0 {
		number = len(s.failures)
		s.failures = append(s.failures, f)
	}
	if s.failure == nil {
		s.failure = make([]uint16, devices)
	}
	s.failure[device] = uint16(number)
}

// failureOf returns the failure of a failed device.
func (s *Selection) failureOf(device int) failure { return s.failures[s.failure[device]] }

// Alike implements memo.Finding.
func (s *Selection) Alike(other *Selection) bool {
	return slices.Equal(s.Matches, other.Matches) && slices.Equal(s.Failed, other.Failed) &&
		slices.Equal(s.failures, other.failures) && slices.Equal(s.failure, other.failure)
}

var seed = maphash.MakeSeed()

// Hash implements memo.Finding.
func (s *Selection) Hash() uint64 {
	buffer := make([]byte, 0, 256)
	for _, set := range []bitset.Set{s.Matches, s.Failed} {
		for _, word := range set {
			buffer = binary.LittleEndian.AppendUint64(buffer, word)
		}
	}
	for _, number := range s.failure {
		buffer = binary.LittleEndian.AppendUint16(buffer, number)
	}
	return maphash.Bytes(seed, buffer)
}

// Size implements memo.Finding. It excludes the errors, which the sheet counts.
func (s *Selection) Size() int {
	return int(unsafe.Sizeof(*s)) + 8*(cap(s.Matches)+cap(s.Failed)) +
		int(unsafe.Sizeof(failure{}))*cap(s.failures) + 2*cap(s.failure)
}
