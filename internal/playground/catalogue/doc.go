// Package catalogue lists the scenarios of the demo: one for each thing that
// the scheduler does with devices, grouped in files by concern. The tests run them as
// well (test/catalogue), instead of worlds of their own. Every scenario
// has its own nodes, named after it, and its pods run only there, unless the
// scenario is about devices that more nodes can reach.
//
// What the scheduler says about pods that wait is worded in reasons.go and
// nowhere else.
package catalogue
