// Package objectfile reads files with API objects, as somebody may have them for a cluster: pods and what makes pods, what
// these ask for, and hardware that is not there yet.
//
//	Read     YAML or JSON of several documents → Objects, in any version of resource.k8s.io that can be converted
//	Pods     workloads → the pods that controllers would make
//	Copies   hardware → several of it, with names of their own
package objectfile
