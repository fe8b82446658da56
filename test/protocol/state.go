package protocol

import "github.com/quartermaster-dra/quartermaster/internal/commit/protocol"

// Sizes of the arrays in a state, which has to be comparable. They are limits for
// configurations; unused places stay zero.
const (
	maxClaims     = 3
	maxPods       = 3
	maxSchedulers = 3
	maxLag        = 5
)

// version is a resourceVersion. Only the order matters, so each state is renumbered from 1 (see
// renumber), and a retry does not lead to ever new states.
type version = uint8

// choice is a set of devices that a claim may get: 1 is the first entry of
// config.choices, 0 means not allocated.
type choice = uint8

// claimState is a claim as the API server has it.
type claimState struct {
	allocation choice
	// made is the version of the write that allocated the claim. The API does not record it, so
	// schedulers have to infer it. Zero if not allocated.
	made version
	// version is the version of the claim's last write, whatever that changed.
	version version
	// reserved has one bit for each pod in status.reservedFor. It stays zero in watch events and
	// views, where nothing reads it.
	reserved uint8
	// foreign means that a scheduler that does not follow the protocol made the allocation.
	foreign bool
}

// span is the range of writes that may have made an allocation: not before first, not after last.
type span struct{ first, last version }

// known is a claim as a scheduler knows it from its watch.
type known struct {
	claimState
	// written is the range of claimState.made that the scheduler knows. It cannot see
	// claimState.made itself.
	written span
}

// view is a scheduler's view of the server: everything up to a version.
type view struct {
	claims [maxClaims]known
	upTo   version
	// pending has one bit for each claim that a list has not delivered yet. Only with the flaw
	// listsPiecemeal.
	pending uint8
	// incomplete means that the pool is not complete, as far as the scheduler has heard.
	incomplete bool
}

// event is a write that some watches have not delivered yet.
type event struct {
	claim uint8
	to    claimState
}

// podState is a pod, and its scheduler's memory about it.
type podState struct {
	// phase and claim are the attempt to bind the pod, as internal/commit/protocol has it.
	phase protocol.Phase
	claim protocol.Claim
	// plan is the planned allocation of the claim or, later, the actual one; zero while idle.
	plan choice
	// at is the version that has to be delivered before the check. Only in See.
	at version
	// noticed means that the scheduler has seen a conflicting allocation. Only in Settle.
	noticed bool
	// deleted means that the pod is gone from the server.
	deleted bool
}

// request is a request of a dead process that has not arrived yet.
type request struct {
	kind requestKind
	pod  uint8
	base version // of the claim on which it was decided
	plan choice
	// joins means that the plan was an existing allocation.
	joins bool
}

type requestKind uint8

const (
	noRequest requestKind = iota
	lateWrite
	lateRelease
	lateUnreserve
	lateBinding
)

// state is everything: server, watches, and the memory of the schedulers.
type state struct {
	now    version // of the last write
	claims [maxClaims]claimState
	// events are the writes that some watch has not delivered yet, oldest first.
	events [maxLag]event
	lag    uint8 // number of events
	views  [maxSchedulers]view
	pods   [maxPods]podState
	late   request
	// The remaining numbers of these events; see config.
	crashes, relists, deletions, failures, republishes uint8
}

// sizes holds the used lengths of the arrays in a state, so that unused places cost no time.
type sizes struct{ claims, schedulers, pods int }

// versions calls f for each place in the state that holds a version.
func (s *state) versions(n sizes, f func(*version)) {
	f(&s.now)
	for i := range s.claims[:n.claims] {
		f(&s.claims[i].made)
		f(&s.claims[i].version)
	}
	for i := range s.events[:s.lag] {
		f(&s.events[i].to.made)
		f(&s.events[i].to.version)
	}
	for i := range s.views[:n.schedulers] {
		v := &s.views[i]
		f(&v.upTo)
		for j := range v.claims[:n.claims] {
			k := &v.claims[j]
			f(&k.version)
			if k.allocation != 0 {
				f(&k.made)
				f(&k.written.first)
				f(&k.written.last)
			}
		}
	}
	for i := range s.pods[:n.pods] {
		f(&s.pods[i].at)
	}
	f(&s.late.base)
}

// renumber keeps the order of all versions in the state and makes them small. Zero, "none", stays.
// Every step only compares versions.
func (s *state) renumber(n sizes) {
	var number [64]version
	s.versions(n, func(v *version) { number[*v] = 1 })
	number[0] = 0
	sum := version(0)
	for v := range number {
		if number[v] != 0 {
			sum++
			number[v] = sum
		}
	}
	s.versions(n, func(v *version) { *v = number[*v] })
}

// forgetDelivered drops the events that all watches have delivered.
func (s *state) forgetDelivered(n sizes) {
	oldest := s.now
	for i := range s.views[:n.schedulers] {
		oldest = min(oldest, s.views[i].upTo)
	}
	drop := 0
	for drop < int(s.lag) && s.events[drop].to.version <= oldest {
		drop++
	}
	if drop == 0 {
		return
	}
	copy(s.events[:], s.events[drop:])
	for i := int(s.lag) - drop; i < int(s.lag); i++ {
		s.events[i] = event{}
	}
	s.lag -= uint8(drop)
}
