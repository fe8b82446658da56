// Package playground runs a whole cluster on one machine to show the scheduler at work: the control plane, simulated
// nodes with devices, and the scheduler in its own process, with only the rights of the manifests. RunDemo runs and
// checks the scenarios of package catalogue; Up keeps a cluster running for experiments.
package playground
