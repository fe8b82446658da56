// Package catalogue lists the scenarios of the demo: one for each feature of the scheduler for devices, grouped in
// files by concern. Tests run them as well (test/kubectldevices). Every scenario has its own nodes, named after it, and
// its pods run only there, unless the scenario is about devices that more nodes can reach.
//
// The expected messages of waiting pods are only in reasons.go.
package catalogue
