// Package scenario runs small scenarios against a cluster: create some objects, wait until the API shows the expected
// state, change something, wait again.
//
// A Scenario is data: hardware, steps, and in the steps expectations about apps (the pods with one app label in the
// scenario's namespace). Each scenario has its own namespace and, as a rule, its own nodes, so that scenarios can run
// at the same time without affecting each other. Steps wait on informer caches; a result counts only when the API
// server has confirmed it, and everything is confirmed again at the end.
package scenario
