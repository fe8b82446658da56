package allocator

import "github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/report"

// Explanation says in full why there is no solution on a node: its fields for programs, its
// String for people. Equal inputs give equal explanations.
type Explanation = report.Explanation

// These are the parts of an Explanation.
type (
	// ExplainedClaim is a claim, with its requests and constraints.
	ExplainedClaim = report.Claim
	// ExplainedRequest counts the devices of a request, or of one alternative of it.
	ExplainedRequest = report.Request
	// ExplainedConstraint says how many devices a constraint leaves for its requests.
	ExplainedConstraint = report.Constraint
	// ExplainedPool is a pool of the node that nothing can be allocated from.
	ExplainedPool = report.Pool
	// Obstacle is a cause together with the devices that a request cannot have for it.
	Obstacle = report.Obstacle
	// Detail is one thing that an obstacle is about, such as a taint or a counter.
	Detail = report.Detail
	// Holder is a claim that is in the way.
	Holder = report.Holder
	// Shortfall is by how much a capacity or counter falls short.
	Shortfall = report.Shortfall
	// CounterSet is a counter set of which too little is left for some devices.
	CounterSet = report.CounterSet
	// DrainedCounter is a counter of such a set.
	DrainedCounter = report.DrainedCounter
	// Drawer is a claim with devices that draw on such a set.
	Drawer = report.Drawer
	// Contention is a counter that does not suffice for all available devices.
	Contention = report.Contention
	// Failure is a way in which a selector fails.
	Failure = report.Failure
	// LackingRequest is a request with the values of which it lacks available devices.
	LackingRequest = report.LackingRequest
)

// Blame says what kind of thing keeps claims from devices on a node: coarser than a Reason, for those who count.
type Blame = report.Blame

const (
	// BlameUnknown means that nobody has asked for the Reason.
	BlameUnknown = report.BlameUnknown
	// BlameSearch is that of searches that gave up.
	BlameSearch = report.BlameSearch
	// BlameClaims means that there may be devices once other claims release what they have.
	BlameClaims = report.BlameClaims
	// BlameCombination means that each request could have devices, but not all of them together.
	BlameCombination = report.BlameCombination
	// BlamePools means that there are none, but that pools of the node are incomplete or invalid.
	BlamePools = report.BlamePools
	// BlameSelectors means that selectors fail on devices that might do otherwise.
	BlameSelectors = report.BlameSelectors
	// BlameDevices means that there are none, whatever other claims do.
	BlameDevices = report.BlameDevices
)

// Cause is what keeps a request from a device that matches its class and selectors. If there
// are several, the first in the order below counts: those that last come before those that
// end when other claims release their devices.
type Cause = report.Cause

const (
	// Available devices can be had: there is no cause.
	Available = report.Available
	// Unreachable devices are in a slice for the node, but select other nodes themselves.
	Unreachable = report.Unreachable
	// Unsupported devices need a feature that is off, here or on the node.
	Unsupported = report.Unsupported
	// OfNode devices stand for resources of the node, or need some (KEP-5517).
	OfNode = report.OfNode
	// TooSmall devices never have the capacity that is asked for (KEP-5075).
	TooSmall = report.TooSmall
	// AttributeMissing devices lack an attribute that a constraint of the claim is about.
	AttributeMissing = report.AttributeMissing
	// Tainted devices have a taint that the request does not tolerate (KEP-5055).
	Tainted = report.Tainted
	// Held devices belong to other claims.
	Held = report.Held
	// Full devices are shared and have too little left of a capacity (KEP-5075).
	Full = report.Full
	// CounterShort devices draw on a counter of which too little is left (KEP-4815).
	CounterShort = report.CounterShort
	// CounterUnknown devices draw on counters of which nobody knows what is left: a device in use is not
	// published any more.
	CounterUnknown = report.CounterUnknown
	// Incompatible devices have no compatibility group in common with devices in use.
	Incompatible = report.Incompatible
)
