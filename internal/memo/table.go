package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Finding is the answer about a subject. It is immutable. A table keeps equal findings of several subjects
// once.
type Finding[T any] interface {
	// Alike reports whether the other finding says the same. Findings that are alike have the same hash.
	Alike(other T) bool
	Hash() uint64
	// Size returns the size in bytes, including all memory that only this finding refers to.
	Size() int
}

// A Table holds the findings for one key. It is safe for concurrent use; reading takes no lock and
// allocates no memory.
type Table[T Finding[T]] struct {
	header
	mutex sync.Mutex
	// pages hold a note about each subject, by the number of its slot. The pointer is nil after the table is
	// forgotten.
	pages atomic.Pointer[[]atomic.Pointer[page]]
	// findings are those that notes refer to. An element changes only while no note of a live subject refers
	// to it.
	findings atomic.Pointer[[]T]

	// mutex guards all further fields.

	users  []int32           // number of notes that refer to each finding
	unused []uint32          // findings without users
	byHash map[uint64]uint32 // one finding for each hash
	errors map[string]error
}

// page holds the notes for neighbouring slots. A note has the subject's serial number in its high bits and
// the index of the finding plus 1 in its low bits; 0 means that there is no finding.
type page [1 << pageBits]atomic.Uint64

const pageBits = 6

const (
	pageSize = int(unsafe.Sizeof(page{}))
	// indexSize is the size of a finding's entries in users, unused and byHash.
	indexSize = 4 + 4 + 40
	// firstPages is the number of pages that a new table has room for.
	firstPages = 4
	// maxErrors limits the number of errors with different texts that a table keeps.
	maxErrors = 64
	// errorSize is the size of an error without its text, which the error and the map share.
	errorSize = 112
)

// Get returns the finding about a subject.
func (s *Table[T]) Get(subject *Subject) (finding T, found bool) {
	p, pages := subject.slot.Load(), s.pages.Load()
	number := numberOf(p)
	if p == 0 || pages == nil || number>>pageBits >= len(*pages) {
		return finding, false
	}
	on := (*pages)[number>>pageBits].Load()
	if on == nil {
		return finding, false
	}
	note := on[number%len(on)].Load()
	if note == 0 || serialOf(note) != serialOf(p) {
		return finding, false
	}
	findings := s.findings.Load()
	if findings == nil {
		return finding, false // Forgotten just now.
	}
	s.touch()
	finding = (*findings)[uint32(note)-1]
	runtime.KeepAlive(subject) // The subject keeps its slot until here.
	return finding, true
}

// Put remembers a finding about a subject, and returns the finding that the table keeps: an earlier one from
// another goroutine, or an equal one about another subject, if there is one.
func (s *Table[T]) Put(subject *Subject, finding T) T {
	kept, grown := s.put(subject.settle(), finding)
	runtime.KeepAlive(subject)
	s.memory.charge(&s.header, grown)
	return kept
}

func (s *Table[T]) put(p slot, finding T) (kept T, grown int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pages.Load() == nil {
		return finding, 0
	}
	on, grown := s.page(numberOf(p) >> pageBits)
	note := &on[numberOf(p)%len(on)]
	if before := note.Load(); before != 0 {
		if serialOf(before) == serialOf(p) {
			return (*s.findings.Load())[uint32(before)-1], grown
		}
		grown -= s.unuse(uint32(before) - 1)
	}
	index, more := s.use(finding)
	note.Store(uint64(serialOf(p))<<serialShift | uint64(index+1))
	return (*s.findings.Load())[index], grown + more
}

// page returns a page, and the number of bytes that creating it took.
func (s *Table[T]) page(number int) (on *page, grown int) {
	pages := *s.pages.Load()
	if number >= len(pages) {
		more := make([]atomic.Pointer[page], max(number+1, 2*len(pages)))
		for i := range pages {
			more[i].Store(pages[i].Load())
		}
		grown = (len(more) - len(pages)) * int(unsafe.Sizeof(pages[0]))
		pages = more
		s.pages.Store(&more)
	}
	if on = pages[number].Load(); on == nil {
		on = new(page)
		pages[number].Store(on)
		grown += pageSize
	}
	return on, grown
}

// use returns the index of a finding that is alike, and adds this one if there is none. grown is the number
// of bytes that this took.
func (s *Table[T]) use(finding T) (index uint32, grown int) {
	findings, hash := *s.findings.Load(), finding.Hash()
	if index, found := s.byHash[hash]; found && findings[index].Alike(finding) {
		s.users[index]++
		return index, 0
	}
	grown = finding.Size() + indexSize
	if last := len(s.unused) - 1; last >= 0 {
		index, s.unused = s.unused[last], s.unused[:last]
		findings[index], s.users[index] = finding, 1
	} else {
		before := cap(findings)
		index, findings = uint32(len(findings)), append(findings, finding)
		s.findings.Store(&findings)
		s.users = append(s.users, 1)
		grown += (cap(findings) - before) * int(unsafe.Sizeof(finding))
	}
	if _, taken := s.byHash[hash]; !taken {
		s.byHash[hash] = index
	}
	return index, grown
}

// unuse removes the reference of a subject that is gone from a finding. It returns the number of bytes that
// this freed.
func (s *Table[T]) unuse(index uint32) (freed int) {
	s.users[index]--
	if s.users[index] > 0 {
		return 0
	}
	findings := *s.findings.Load()
	finding := findings[index]
	if hash := finding.Hash(); s.byHash[hash] == index {
		delete(s.byHash, hash)
	}
	var none T
	findings[index] = none
	s.unused = append(s.unused, index)
	return finding.Size() + indexSize
}

// Error returns the error that the table keeps for the text of err. The table keeps each text once, and the
// first maxErrors texts; others returns the error for all the rest.
func (s *Table[T]) Error(err error, others func() error) error {
	grown, kept := s.keepError(err, others)
	s.memory.charge(&s.header, grown)
	return kept
}

func (s *Table[T]) keepError(err error, others func() error) (grown int, kept error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pages.Load() == nil {
		return 0, err
	}
	if len(s.errors) >= maxErrors && s.errors[err.Error()] == nil {
		err = others()
	}
	text := err.Error()
	if kept := s.errors[text]; kept != nil {
		return 0, kept
	}
	if s.errors == nil {
		s.errors = make(map[string]error)
	}
	s.errors[text] = err
	return errorSize + 2*len(text), err
}

// forget drops all findings. The caller must not hold the memory's mutex.
func (s *Table[T]) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pages.Store(nil)
	s.findings.Store(nil)
	s.users, s.unused, s.byHash, s.errors = nil, nil, nil, nil
}

func (s *Table[T]) head() *header { return &s.header }
