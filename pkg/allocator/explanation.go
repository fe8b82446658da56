package allocator

import "github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/explain"

// An Explanation gives all reasons why there is no solution on a node: its fields for programs, its String
// for people. Equal inputs give equal explanations.
type Explanation = explain.Explanation

// Parts of an Explanation.
type (
	// ExplainedClaim is a claim, with its requests and constraints.
	ExplainedClaim = explain.Claim
	// ExplainedRequest counts the devices of a request, or of one alternative of it.
	ExplainedRequest = explain.Request
	// ExplainedConstraint counts the devices that a constraint leaves for its requests.
	ExplainedConstraint = explain.Constraint
	// ExplainedPool is a pool of the node that cannot be allocated from.
	ExplainedPool = explain.Pool
	// Obstacle is a cause together with the number of devices that it keeps from a request.
	Obstacle = explain.Obstacle
	// Detail is one item of an obstacle, for example a taint or a counter.
	Detail = explain.Detail
	// Holder is a claim that holds devices that the request needs.
	Holder = explain.Holder
	// Shortfall is the amount that a capacity or counter lacks.
	Shortfall = explain.Shortfall
	// CounterSet is a counter set with too little left for some devices.
	CounterSet = explain.CounterSet
	// DrainedCounter is a counter of such a set.
	DrainedCounter = explain.DrainedCounter
	// Drawer is a claim with devices that draw on such a set.
	Drawer = explain.Drawer
	// Contention is a counter that does not suffice for all available devices.
	Contention = explain.Contention
	// Failure is a way in which a selector fails.
	Failure = explain.Failure
	// LackingRequest is a request with the attribute values that too few available devices have.
	LackingRequest = explain.LackingRequest
)

// Blame classifies the reason that keeps claims from devices on a node. It is coarser than a Reason, for metrics.
type Blame = explain.Blame

const (
	// BlameUnknown means that Reason was not called.
	BlameUnknown = explain.BlameUnknown
	// BlameSearch means that the search gave up.
	BlameSearch = explain.BlameSearch
	// BlameClaims means that devices may become free when other claims release theirs.
	BlameClaims = explain.BlameClaims
	// BlameCombination means that each request could have devices, but not all of them together.
	BlameCombination = explain.BlameCombination
	// BlamePools means that there are no devices, but that pools of the node are incomplete or invalid.
	BlamePools = explain.BlamePools
	// BlameSelectors means that selectors fail on devices that might match otherwise.
	BlameSelectors = explain.BlameSelectors
	// BlameDevices means that there are no devices, whatever other claims do.
	BlameDevices = explain.BlameDevices
)

// A Cause keeps a request from a device that matches its class and selectors. If several apply, the first in
// the order below counts: causes that last come before causes that end when other claims release their devices.
type Cause = explain.Cause

const (
	// Available devices have no cause against them.
	Available = explain.Available
	// Unreachable devices are in a slice for the node, but select other nodes themselves.
	Unreachable = explain.Unreachable
	// Unsupported devices need a feature that is off, here or on the node.
	Unsupported = explain.Unsupported
	// OfNode devices stand for resources of the node, or need some of them (KEP-5517).
	OfNode = explain.OfNode
	// TooSmall devices never have the requested capacity (KEP-5075).
	TooSmall = explain.TooSmall
	// AttributeMissing devices lack an attribute that a constraint of the claim needs.
	AttributeMissing = explain.AttributeMissing
	// Tainted devices have a taint that the request does not tolerate (KEP-5055).
	Tainted = explain.Tainted
	// Held devices belong to other claims.
	Held = explain.Held
	// Full devices are shared and have too little left of a capacity (KEP-5075).
	Full = explain.Full
	// CounterShort devices draw on a counter with too little left (KEP-4815).
	CounterShort = explain.CounterShort
	// CounterUnknown devices draw on counters whose remaining amount is unknown, because a device in use is
	// not published any more.
	CounterUnknown = explain.CounterUnknown
	// Incompatible devices have no compatibility group in common with devices in use.
	Incompatible = explain.Incompatible
)
