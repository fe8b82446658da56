// Package scenario runs small stories against a cluster: create some objects,
// wait until the API shows what is expected, change something, wait again.
//
// A Scenario is data: hardware, steps, and in the steps expectations about
// apps (the pods with one app label in the scenario's namespace). Each
// scenario has a namespace of its own and, as a rule, nodes of its own, so that
// scenarios run at the same time without meeting each other. Waiting looks at
// informer caches; nothing counts before the API server itself has confirmed
// it, and at the end everything is confirmed once more.
package scenario
