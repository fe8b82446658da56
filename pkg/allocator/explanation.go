package allocator

import "github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/explain"

// An Explanation gives all reasons why there is no solution on a node: its fields for programs, its String
// for people. Equal inputs give equal explanations.
type Explanation = explain.Explanation

// Parts of an Explanation.
type (
	ExplainedClaim   = explain.Claim
	ExplainedRequest = explain.Request
	Holder           = explain.Holder
)

// Blame classifies the reason that keeps claims from devices on a node. It is coarser than a Reason, for metrics.
type Blame = explain.Blame

const (
	BlameUnknown     = explain.BlameUnknown
	BlameSearch      = explain.BlameSearch
	BlameClaims      = explain.BlameClaims
	BlameCombination = explain.BlameCombination
	BlamePools       = explain.BlamePools
	BlameSelectors   = explain.BlameSelectors
	BlameDevices     = explain.BlameDevices
)

// A Cause keeps a request from a device that matches its class and selectors.
type Cause = explain.Cause

const (
	Available        = explain.Available
	Unreachable      = explain.Unreachable
	Unsupported      = explain.Unsupported
	OfNode           = explain.OfNode
	TooSmall         = explain.TooSmall
	AttributeMissing = explain.AttributeMissing
	Tainted          = explain.Tainted
	Held             = explain.Held
	Full             = explain.Full
	CounterShort     = explain.CounterShort
	CounterUnknown   = explain.CounterUnknown
	Incompatible     = explain.Incompatible
)
