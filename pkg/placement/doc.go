// Package placement says what it costs to hand out devices: how much less of what is free will be of use for requests that are
// likely to come. The allocator compares devices of a node by it, the scheduler nodes.
//
// What is free on a node is a [State], what is likely to be asked for a [Demand]. A [Histogram] makes the demand from pods that
// were seen. [Demand.Assess] values a state, and [Cost] compares the values before and after a choice.
//
// The package is pure: it knows neither API objects nor clocks, and the same input gives the same result.
package placement
