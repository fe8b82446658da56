// Package report has explanations as data and as text: why there are no devices for claims on a
// node. Who finds that out is package explain.
package report

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Explanation says in full why there is no solution on a node. All numbers are
// numbers of devices unless they say otherwise. Equal inputs give equal explanations.
type Explanation struct {
	// Node is the name of the node.
	Node string
	// Reason is the short form, as Outcome.Reason gives it.
	Reason string
	// Steps is how many devices the search tried.
	Steps int
	// GaveUp is true if the search ran out of its budget: there may be a solution.
	GaveUp bool
	// Claims are those that were to be allocated, in their order.
	Claims []Claim
	// Combination says what is wrong with devices, requests or claims in combination. It is
	// "" if what the Reason says concerns only one request.
	Combination string
	// Together says what is missing for the requests together, "" without a Combination.
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
	// Wanted is how many devices are needed. For allocation mode All it is the number
	// of those that match, without such as the node cannot use in any case.
	Wanted int
	// Published are the devices in those pools of the node that can be allocated from.
	Published int
	// OfClass are those that match the selectors of the class.
	OfClass int
	// Matching are those that match also the selectors of the request.
	Matching int
	// Available are those that the request could have if it were alone.
	Available int
	// Obstacles are what keeps it from the other matching devices, each of which is
	// counted once. They are in the order of their causes.
	Obstacles []Obstacle
	// Contended are the counters of which too little is left for all available devices
	// together, though there is enough for each.
	Contended []Contention
	// Failing are the devices on which a selector fails, by the text of the error. They
	// do not match.
	Failing []Failure
	// Shortage says why there are too few available devices, "" if there are enough.
	Shortage string
}

// Failure is a way in which a selector fails.
type Failure struct {
	// Text says which selector of which request fails, and how.
	Text string
	// Devices is on how many devices it does so.
	Devices int
	// Device is the first of them, as driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
}

// Obstacle is a cause together with the devices that a request cannot have for it.
type Obstacle struct {
	Cause Cause
	// Devices is how many, at least one.
	Devices int
	// Details are what the cause is about, most devices first. A device can count for
	// several of them.
	Details []Detail
	// Claims are those in the way, most devices first: for Held those that have the
	// devices, for Full those with shares of them, for CounterShort those with devices
	// that draw on the same counters. For other causes it is empty.
	Claims []Holder
	// CounterSets are, for CounterShort, the counter sets of which too little is left, by
	// driver, pool and set.
	CounterSets []CounterSet
}

// CounterSet is a counter set of which too little is left for some devices.
type CounterSet struct {
	// Pool is driver/pool, Set the name of the set in it.
	Pool, Set string
	// Counters are those of which too little is left, each with the least that a device
	// needs and has too little of. That of which the least part is left comes first.
	Counters []DrainedCounter
	// Claims are those with devices that draw on these counters, by name.
	Claims []Drawer
}

// DrainedCounter is a counter of which Left is less than Needed.
type DrainedCounter struct {
	Name         string
	Needed, Left resource.Quantity
}

// Drawer is a claim with the devices of the pool that draw on a counter set.
type Drawer struct {
	// Claim is the zero value if the ledger view knows no names.
	Claim   ledger.ClaimRef
	Devices []string
}

// Detail is one thing that an obstacle is about: a taint as key=value:effect, a
// feature gate, an attribute, a capacity, or a counter as driver/pool/set/counter.
type Detail struct {
	Name string
	// Devices is for how many devices it matters.
	Devices int
	// Shortfall is set for capacities and counters of which too little is left.
	Shortfall *Shortfall
}

// Shortfall is about the device that lacks the least.
type Shortfall struct {
	// Device is driver/pool/device.
	Device string
	// Needed is what one allocation takes. Left is what can be had, negative if claims
	// have more than there is. By is the difference, more than zero.
	Needed, Left, By resource.Quantity
}

// Holder is a claim that is in the way.
type Holder struct {
	// Claim is the zero value if the ledger view knows no names. Several claims then
	// count as one.
	Claim ledger.ClaimRef
	// Devices is by how many devices, or shares of them, it is in the way.
	Devices int
}

// Contention is a counter that available devices draw on.
type Contention struct {
	// Counter is driver/pool/set/counter.
	Counter string
	// Devices is how many available devices draw on it, Needed what they draw together.
	Devices int
	Needed  resource.Quantity
	// Left is what can be had of it, less than Needed.
	Left resource.Quantity
}

// Constraint says how many devices a constraint leaves for its requests, if
// it were the only one and no request took devices from another.
type Constraint struct {
	// Kind is matchAttribute or distinctAttribute.
	Kind string
	// Attribute is the fully qualified name.
	Attribute string
	// Requests are the names of the requests that it covers.
	Requests []string
	// Wanted is how many devices these want together, at least.
	Wanted int
	// Value is what most of the available devices agree on, Best is their number. For
	// distinctAttribute Value is "" and Best the number of different values.
	Value string
	Best  int
	// Possible is what Best could be if no other claim had devices, PossibleValue what
	// these agree on.
	Possible      int
	PossibleValue string
	// Enough reports whether Best satisfies all requests, PossiblyEnough whether Possible
	// does. For several requests the number alone does not tell.
	Enough, PossiblyEnough bool
	// Lacking are, if no value has enough available devices for each of several requests,
	// the requests that lack some.
	Lacking []LackingRequest
	// Lists is how many matching devices have a list as value although lists are not
	// understood (DRAListTypeAttributes).
	Lists int
}

// LackingRequest is a request with the values of which it lacks available devices.
type LackingRequest struct {
	Request string
	Values  []string
}

// Pool is a pool of the node that nothing can be allocated from.
type Pool struct {
	ID    inventory.PoolID
	State inventory.State
	// Reason says why it is in that state.
	Reason string
}
