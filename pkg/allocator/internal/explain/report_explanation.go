package explain

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// An Explanation gives all reasons why there is no solution on a node. All numbers are numbers of devices
// unless stated otherwise. Equal inputs give equal explanations.
type Explanation struct {
	// Node is the name of the node.
	Node string
	// Reason is the short form, equal to Outcome.Reason.
	Reason string
	// Steps is the number of devices that the search tried.
	Steps int
	// GaveUp is true if the search ran out of its budget: there may be a solution.
	GaveUp bool
	// Claims are the claims to allocate, in their order.
	Claims []Claim
	// Combination describes the problem that devices, requests or claims have in combination. It is "" if the
	// Reason concerns only one request.
	Combination string
	// Together describes what the requests lack together; it is "" without a Combination.
	Together string
	// LeftOut are the node's pools that could not be allocated from.
	LeftOut []Pool
}

// Claim is a claim of an Explanation.
type Claim struct {
	// Claim is namespace/name.
	Claim string
	// Requests are all requests and alternatives in the order of the claim.
	Requests []Request
	// Constraints are those of the claim, in its order.
	Constraints []Constraint
}

// Request counts the devices of one request, or of one alternative of it.
// Matching is the sum of Available and of the Devices of all Obstacles.
type Request struct {
	// Request is the name, or request/alternative.
	Request string
	// Class is the name of the device class.
	Class string
	// All is true for allocation mode All, Admin for admin access.
	All, Admin bool
	// Wanted is the number of devices needed. For allocation mode All it is the number of matching devices,
	// without those that the node can never use.
	Wanted int
	// Published are the devices in the node's pools that can be allocated from.
	Published int
	// OfClass are the devices that match the selectors of the class.
	OfClass int
	// Matching are the devices that also match the selectors of the request.
	Matching int
	// Available are the devices that the request could get without other requests.
	Available int
	// Obstacles are the causes against the other matching devices, in the order of the causes. Each device counts once.
	Obstacles []Obstacle
	// Contended are the counters with enough left for each available device, but too little for all of them together.
	Contended []Contention
	// Failing are the devices on which a selector fails, by the text of the error. They do not match.
	Failing []Failure
	// Shortage is the reason why there are too few available devices; it is "" if there are enough.
	Shortage string
}

// A Failure is a way in which a selector fails.
type Failure struct {
	// Text names the request and the selector, and gives its error.
	Text string
	// Devices is the number of devices on which it fails.
	Devices int
	// Device is the first of them, as driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
}

// An Obstacle is a cause together with the number of devices that it keeps from a request.
type Obstacle struct {
	Cause Cause
	// Devices is the number of devices, at least one.
	Devices int
	// Details are the items of the cause, most devices first. A device can count for several of them.
	Details []Detail
	// Claims are the claims behind the cause, most devices first: for Held the holders, for Full the claims with
	// shares, for CounterShort the claims with devices that draw on the same counters. For other causes it is empty.
	Claims []Holder
	// CounterSets are, for CounterShort, the counter sets with too little left, by driver, pool and set.
	CounterSets []CounterSet
}

// A CounterSet is a counter set with too little left for some devices.
type CounterSet struct {
	// Pool is driver/pool, Set the name of the set in it.
	Pool, Set string
	// Counters are those with too little left, each with the smallest need of a device that exceeds what is
	// left. The counter whose rest is the smallest fraction of the need comes first.
	Counters []DrainedCounter
	// Claims are the claims with devices that draw on these counters, by name.
	Claims []Drawer
}

// A DrainedCounter is a counter with Left less than Needed.
type DrainedCounter struct {
	Name         string
	Needed, Left resource.Quantity
}

// A Drawer is a claim with its devices of the pool that draw on a counter set.
type Drawer struct {
	// Claim is the zero value if the ledger view knows no names.
	Claim   ledger.ClaimRef
	Devices []string
}

// A Detail is one item of an obstacle: a taint as key=value:effect, a feature gate, an attribute, a capacity,
// or a counter as driver/pool/set/counter.
type Detail struct {
	Name string
	// Devices is the number of devices that the item affects.
	Devices int
	// Shortfall is set for capacities and counters with too little left.
	Shortfall *Shortfall
}

// A Shortfall describes the device that lacks the least.
type Shortfall struct {
	// Device is driver/pool/device.
	Device string
	// Needed is the amount that one allocation takes. Left is the amount left, negative if claims have more
	// than there is. By is the difference, more than zero.
	Needed, Left, By resource.Quantity
}

// A Holder is a claim that holds devices that the request needs.
type Holder struct {
	// Claim is the zero value if the ledger view knows no names. Several such claims count as one.
	Claim ledger.ClaimRef
	// Devices is the number of devices, or shares of devices, that the claim holds.
	Devices int
}

// A Contention is a counter that available devices draw on.
type Contention struct {
	// Counter is driver/pool/set/counter.
	Counter string
	// Devices is the number of available devices that draw on it, Needed the sum of their draws.
	Devices int
	Needed  resource.Quantity
	// Left is the amount left of it, less than Needed.
	Left resource.Quantity
}

// A Constraint counts the devices that a constraint leaves for its requests, as if it were the only one and
// no request took devices from another.
type Constraint struct {
	// Kind is matchAttribute or distinctAttribute.
	Kind string
	// Attribute is the fully qualified name.
	Attribute string
	// Requests are the names of the requests that it covers.
	Requests []string
	// Wanted is the minimum number of devices that these want together.
	Wanted int
	// Value is the value that most of the available devices have, Best their number. For distinctAttribute
	// Value is "" and Best is the number of different values.
	Value string
	Best  int
	// Possible and PossibleValue are Best and Value as if no other claim had devices.
	Possible      int
	PossibleValue string
	// Enough reports whether Best satisfies all requests, PossiblyEnough whether Possible does. For several
	// requests the number alone does not decide.
	Enough, PossiblyEnough bool
	// Lacking are the requests with too few available devices, if no value has enough available devices for
	// each of several requests.
	Lacking []LackingRequest
	// Lists is the number of matching devices that have a list as value although lists are not supported
	// (DRAListTypeAttributes).
	Lists int
}

// A LackingRequest is a request with the values that too few available devices have.
type LackingRequest struct {
	Request string
	Values  []string
}

// A Pool is a pool of the node that cannot be allocated from.
type Pool struct {
	ID    inventory.PoolID
	State inventory.State
	// Reason is the reason of that state.
	Reason string
}
