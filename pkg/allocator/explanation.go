package allocator

import "github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/report"

// An Explanation gives all reasons why there is no solution on a node: its fields for programs, its String
// for people. Equal inputs give equal explanations.
type Explanation = report.Explanation

// Parts of an Explanation.
type (
	// ExplainedClaim is a claim, with its requests and constraints.
	ExplainedClaim = report.Claim
	// ExplainedRequest counts the devices of a request, or of one alternative of it.
	ExplainedRequest = report.Request
	// ExplainedConstraint counts the devices that a constraint leaves for its requests.
	ExplainedConstraint = report.Constraint
	// ExplainedPool is a pool of the node that cannot be allocated from.
	ExplainedPool = report.Pool
	// Obstacle is a cause together with the number of devices that it keeps from a request.
	Obstacle = report.Obstacle
	// Detail is one item of an obstacle, for example a taint or a counter.
	Detail = report.Detail
	// Holder is a claim that holds devices that the request needs.
	Holder = report.Holder
	// Shortfall is the amount that a capacity or counter lacks.
	Shortfall = report.Shortfall
	// CounterSet is a counter set with too little left for some devices.
	CounterSet = report.CounterSet
	// DrainedCounter is a counter of such a set.
	DrainedCounter = report.DrainedCounter
	// Drawer is a claim with devices that draw on such a set.
	Drawer = report.Drawer
	// Contention is a counter that does not suffice for all available devices.
	Contention = report.Contention
	// Failure is a way in which a selector fails.
	Failure = report.Failure
	// LackingRequest is a request with the attribute values that too few available devices have.
	LackingRequest = report.LackingRequest
)

// Blame classifies the reason that keeps claims from devices on a node. It is coarser than a Reason, for metrics.
type Blame = report.Blame

const (
	// BlameUnknown means that Reason was not called.
	BlameUnknown = report.BlameUnknown
	// BlameSearch means that the search gave up.
	BlameSearch = report.BlameSearch
	// BlameClaims means that devices may become free when other claims release theirs.
	BlameClaims = report.BlameClaims
	// BlameCombination means that each request could have devices, but not all of them together.
	BlameCombination = report.BlameCombination
	// BlamePools means that there are no devices, but that pools of the node are incomplete or invalid.
	BlamePools = report.BlamePools
	// BlameSelectors means that selectors fail on devices that might match otherwise.
	BlameSelectors = report.BlameSelectors
	// BlameDevices means that there are no devices, whatever other claims do.
	BlameDevices = report.BlameDevices
)

// A Cause keeps a request from a device that matches its class and selectors. If several apply, the first in
// the order below counts: causes that last come before causes that end when other claims release their devices.
type Cause = report.Cause

const (
	// Available devices have no cause against them.
	Available = report.Available
	// Unreachable devices are in a slice for the node, but select other nodes themselves.
	Unreachable = report.Unreachable
	// Unsupported devices need a feature that is off, here or on the node.
	Unsupported = report.Unsupported
	// OfNode devices stand for resources of the node, or need some of them (KEP-5517).
	OfNode = report.OfNode
	// TooSmall devices never have the requested capacity (KEP-5075).
	TooSmall = report.TooSmall
	// AttributeMissing devices lack an attribute that a constraint of the claim needs.
	AttributeMissing = report.AttributeMissing
	// Tainted devices have a taint that the request does not tolerate (KEP-5055).
	Tainted = report.Tainted
	// Held devices belong to other claims.
	Held = report.Held
	// Full devices are shared and have too little left of a capacity (KEP-5075).
	Full = report.Full
	// CounterShort devices draw on a counter with too little left (KEP-4815).
	CounterShort = report.CounterShort
	// CounterUnknown devices draw on counters whose remaining amount is unknown, because a device in use is
	// not published any more.
	CounterUnknown = report.CounterUnknown
	// Incompatible devices have no compatibility group in common with devices in use.
	Incompatible = report.Incompatible
)
