// Package files reads files with Kubernetes objects: pods and workloads, their claims and templates, and
// hardware that does not exist yet.
//
//	Read     YAML or JSON of several documents → Objects, in any version of resource.k8s.io that can be converted
//	Pods     workloads → the pods that controllers would make
//	Copies   hardware → several copies with distinct names
//
// # Pseudonyms
//
// Names in objects are replaced so that users can show the objects to others. Whatever is not known to be harmless is replaced: a
// field that is new in the API gives nothing away.
package files
