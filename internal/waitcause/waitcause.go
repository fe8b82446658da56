// Package waitcause has the causes for which pods wait for devices: few enough for the label of a metric.
package waitcause

import (
	"errors"
	"math/bits"
	"sync/atomic"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Cause is why a pod waits for devices. If there are several, because nodes have different ones, the first in the order
// below counts: the one that is nearest to an end.
type Cause uint8

const (
	// Conflict: what it was to get was allocated to another claim before. It is tried again.
	Conflict Cause = iota
	// CommitFailed: its claims could not be written, or its devices did not get ready. It is tried again.
	CommitFailed
	// Committing: it has a node, and waits for its claims to be written or for its devices to get ready (KEP-5007).
	Committing
	// Undecided: it is not known of a node whether it would do, because the search gave up or an expression is still
	// being evaluated.
	Undecided
	// Releasing: a node would do as soon as claims of pods that have ended are deallocated.
	Releasing
	// LowerPriority: a node would do without the claims of pods of lower priority.
	LowerPriority
	// Held: other claims hold the devices.
	Held
	// Combination: each request could have devices, but not all of them together.
	Combination
	// PoolUnusable: there are no devices, and pools are left out because they are incomplete or invalid.
	PoolUnusable
	// SelectorFails: a CEL expression, or a device that it is about, keeps a node from being judged.
	SelectorFails
	// NoDevices: no node has devices for the request, whatever other claims hold.
	NoDevices
	// ClaimElsewhere: a claim of the pod is allocated, or being allocated, where the pod cannot run.
	ClaimElsewhere
	// ClaimInUse: as many pods as there may be use a claim of the pod, or it is about to be released.
	ClaimInUse
	// ClassMissing: a device class does not exist.
	ClassMissing
	// RequestInvalid: a request cannot be understood, or needs a feature that is off.
	RequestInvalid
	// ClaimMissing: a claim of the pod does not exist yet, or is not the pod's.
	ClaimMissing
	// Group: it is in a PodGroup of scheduler-plugins, of which not enough pods can be scheduled.
	Group
	// Other: none of these.
	Other

	count int = iota
)

var names = [count]string{
	Conflict: "conflict", CommitFailed: "commit_failed", Committing: "committing", Undecided: "undecided", Releasing: "releasing",
	LowerPriority: "held_by_lower_priority", Held: "held", Combination: "combination", PoolUnusable: "pool_unusable",
	SelectorFails: "selector_fails", NoDevices: "no_devices", ClaimElsewhere: "claim_elsewhere", ClaimInUse: "claim_in_use",
	ClassMissing: "class_missing", RequestInvalid: "request_invalid", ClaimMissing: "claim_missing", Group: "group", Other: "other",
}

// String is the value of the label.
func (c Cause) String() string { return names[c] }

// All returns all causes in their order.
func All() []Cause {
	all := make([]Cause, count)
	for i := range all {
		all[i] = Cause(i)
	}
	return all
}

// Counts is how many pods wait, by cause.
type Counts [count]int

// Causes are those of a pod. They are safe for concurrent use; the zero value has none.
type Causes struct{ set atomic.Uint32 }

// Note adds a cause.
func (c *Causes) Note(cause Cause) { c.set.Or(1 << cause) }

// Only has a cause take the place of all others.
func (c *Causes) Only(cause Cause) { c.set.Store(1 << cause) }

// Clear removes all causes.
func (c *Causes) Clear() { c.set.Store(0) }

// Ended removes a cause.
func (c *Causes) Ended(cause Cause) { c.set.And(^uint32(1 << cause)) }

// NoteOther adds Other if there is no cause: the pod was rejected, and nobody has said why.
func (c *Causes) NoteOther() { c.set.CompareAndSwap(0, 1<<Other) }

// NoteBlame notes the cause on a node where nothing was found, unless nobody has looked what it is.
func (c *Causes) NoteBlame(blame allocator.Blame) {
	switch blame {
	case allocator.BlameSearch:
		c.Note(Undecided)
	case allocator.BlameClaims:
		c.Note(Held)
	case allocator.BlameCombination:
		c.Note(Combination)
	case allocator.BlamePools:
		c.Note(PoolUnusable)
	case allocator.BlameSelectors:
		c.Note(SelectorFails)
	case allocator.BlameDevices:
		c.Note(NoDevices)
	case allocator.BlameUnknown:
	}
}

// NoteStanding notes whether a node would do as soon as claims are deallocated, or without pods of lower priority.
func (c *Causes) NoteStanding(releasing, lowerPriority bool) {
	if releasing {
		c.Note(Releasing)
	}
	if lowerPriority {
		c.Note(LowerPriority)
	}
}

// First returns the cause that counts, if there is any.
func (c *Causes) First() (cause Cause, waits bool) {
	set := c.set.Load()
	return Cause(bits.TrailingZeros32(set)), set != 0
}

// OfTask is the cause if claims cannot be understood.
func OfTask(err error) Cause {
	if isClassMissing(err) {
		return ClassMissing
	}
	return RequestInvalid
}

// OfSearch is the cause if claims could not be judged on a node.
func OfSearch(err error) Cause {
	if errors.Is(err, selector.ErrPending) || errors.Is(err, allocator.ErrInterrupted) {
		return Undecided
	}
	if isClassMissing(err) {
		return ClassMissing // Of one of several alternatives.
	}
	return SelectorFails
}

func isClassMissing(err error) bool {
	missing := new(allocator.ClassMissing)
	return errors.As(err, &missing)
}
