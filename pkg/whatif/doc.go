// Package whatif answers whether pods would fit in a cluster, and what would change that. It serves
// autoscalers, quota systems and people. It looks at a snapshot of the cluster's objects, and
// schedules nothing.
//
//	Objects    API objects of resource.k8s.io/v1 and core/v1: from a client, listers or a dump
//	Snapshot   an immutable world of these objects; With… and Without… return other worlds
//	Fit        pods × snapshot → plans, or the reasons why there are none
//	Explain    a pod × all nodes → the obstacles, with nodes grouped by obstacle
//
// No question copies data of the cluster's size: a derived snapshot shares everything with the
// original but the difference. Verdicts about a node are cached for all questions that ask for the
// same devices, while nothing changes there.
//
// It judges nodes by devices, by CPU, memory and other resources, by taints, by node selectors and
// node affinity, and by spec.unschedulable. It does not check ports, volumes, spreading, affinity
// between pods, and what other scheduler plugins add. Answer.Unchecked lists those that a pod uses.
package whatif
