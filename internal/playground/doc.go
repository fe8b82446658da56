// Package playground runs a whole cluster on one machine, to see the scheduler
// at work: the control plane, simulated nodes with devices, and the scheduler
// as a process of its own with no other rights than those of the manifests.
// RunDemo goes through the scenarios of package catalogue and checks them; Up
// keeps a cluster running for experiments.
package playground
