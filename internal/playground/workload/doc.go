// Package workload makes the objects that users of devices write: device
// classes, claims, claim templates, and the pods, Deployments and Jobs that use
// them. Objects come without a namespace; whoever creates them sets it. Every
// pod carries the label AppLabel, by which the playground finds it again.
package workload
