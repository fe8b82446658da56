// Package reasons classifies why pods wait for devices, in few enough causes for a metric's label.
package reasons

import (
	"errors"
	"math/bits"
	"sync/atomic"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Cause says why a pod waits for devices. If there are several, because nodes differ, the first in the order below
// counts: the one whose end is nearest.
type Cause uint8

const (
	// Conflict: another claim got the pod's devices first. The pod is tried again.
	Conflict Cause = iota
	// CommitFailed: the pod's claims could not be written, or its devices did not get ready. It is tried again.
	CommitFailed
	// Committing: the pod has a node, and waits for its claims to be written or for its devices to get ready
	// (KEP-5007).
	Committing
	// Undecided: it is unknown whether the pod fits on some node, because the search gave up or an expression is
	// still being evaluated.
	Undecided
	// Releasing: the pod fits on a node as soon as claims of ended pods are deallocated.
	Releasing
	// LowerPriority: the pod would fit on a node without the claims of pods with lower priority.
	LowerPriority
	// Held: other claims hold the devices.
	Held
	// Combination: each request alone can be satisfied, but not all of them together.
	Combination
	// PoolUnusable: no devices are available, and some pools are ignored because they are incomplete or invalid.
	PoolUnusable
	// SelectorFails: a CEL expression, or a device that it evaluates, prevents the check of a node.
	SelectorFails
	// NoDevices: no node has devices for the request, whatever other claims hold.
	NoDevices
	// NodeFull: a node has devices for the pod, but not the CPU or memory that they stand for or need.
	NodeFull
	// ClaimElsewhere: a claim of the pod is allocated, or being allocated, where the pod cannot run.
	ClaimElsewhere
	// ClaimInUse: a claim of the pod has the maximum of consumers, or is about to be released.
	ClaimInUse
	// ClassMissing: a device class does not exist.
	ClassMissing
	// RequestInvalid: a request is invalid, or needs a disabled feature.
	RequestInvalid
	// ClaimMissing: a claim of the pod does not exist yet, or belongs to another pod.
	ClaimMissing
	// Group: too few pods of the pod's PodGroup (scheduler-plugins) can be scheduled.
	Group
	// Other: none of the above.
	Other

	count int = iota
)

var names = [count]string{
	Conflict: "conflict", CommitFailed: "commit_failed", Committing: "committing", Undecided: "undecided", Releasing: "releasing",
	LowerPriority: "held_by_lower_priority", Held: "held", Combination: "combination", PoolUnusable: "pool_unusable",
	SelectorFails: "selector_fails", NoDevices: "no_devices", NodeFull: "node_full", ClaimElsewhere: "claim_elsewhere", ClaimInUse: "claim_in_use",
	ClassMissing: "class_missing", RequestInvalid: "request_invalid", ClaimMissing: "claim_missing", Group: "group", Other: "other",
}

// String returns the value of the label.
func (c Cause) String() string { return names[c] }

// Counts has the number of waiting pods by cause.
type Counts [count]int

// Causes holds the causes of a pod. It is safe for concurrent use; the zero value is empty.
type Causes struct{ set atomic.Uint32 }

// Note adds a cause.
func (c *Causes) Note(cause Cause) { c.set.Or(1 << cause) }

// Only replaces all causes by one.
func (c *Causes) Only(cause Cause) { c.set.Store(1 << cause) }

// Clear removes all causes.
func (c *Causes) Clear() { c.set.Store(0) }

// Ended removes a cause.
func (c *Causes) Ended(cause Cause) { c.set.And(^uint32(1 << cause)) }

// NoteOther adds Other if there is no cause: the pod was rejected without one.
func (c *Causes) NoteOther() { c.set.CompareAndSwap(0, 1<<Other) }

// NoteBlame adds the cause of a failed search on a node, unless the cause was not determined.
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

// NoteReclaimable adds a cause if the node fits as soon as claims are deallocated, or without pods of lower priority.
func (c *Causes) NoteReclaimable(releasing, lowerPriority bool) {
	if releasing {
		c.Note(Releasing)
	}
	if lowerPriority {
		c.Note(LowerPriority)
	}
}

// First returns the first cause in the order of Cause, if there is any.
func (c *Causes) First() (cause Cause, waits bool) {
	set := c.set.Load()
	return Cause(bits.TrailingZeros32(set)), set != 0
}

// OfTask returns the cause for an error about the claims themselves.
func OfTask(err error) Cause {
	if isClassMissing(err) {
		return ClassMissing
	}
	return RequestInvalid
}

// OfSearch returns the cause for an error of the search on a node.
func OfSearch(err error) Cause {
	if errors.Is(err, selector.ErrPending) || errors.Is(err, allocator.ErrInterrupted) {
		return Undecided
	}
	if isClassMissing(err) {
		return ClassMissing // The class of one of several alternatives.
	}
	return SelectorFails
}

func isClassMissing(err error) bool {
	missing := new(allocator.ClassMissing)
	return errors.As(err, &missing)
}
