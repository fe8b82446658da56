// Package placement calculates the cost of allocating devices: the loss of free capacity that likely future
// requests could use. The allocator compares the devices of a node by this cost, the scheduler compares nodes.
//
// A [State] describes the free part of a node, a [Demand] the likely future requests. A [Histogram] derives
// the demand from the pods seen so far. [Demand.Assess] values a state, and [Cost] compares the values before
// and after a choice.
//
// The package is pure: it knows neither API objects nor clocks, and the same input gives the same result.
package placement
