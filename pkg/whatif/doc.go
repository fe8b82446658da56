// Package whatif answers "would it fit, and what if": for autoscalers, quota systems and people. It
// looks at a state of a cluster that is taken once, and schedules nothing.
//
//	Objects    API objects of resource.k8s.io/v1 and core/v1: from a client, listers or a dump
//	Snapshot   a world made of them, immutable; With… and Without… return worlds that differ
//	Fit        pods × snapshot → plans, or the reasons why there is none
//	Explain    a pod × all nodes → what is in its way, for nodes where that is the same
//
// A question copies nothing whose size is the cluster's: a snapshot that differs from another one
// shares everything with it but the difference. What was found out about a node for one question is
// remembered for all that ask for the same devices, as long as nothing there differs.
//
// It judges nodes by devices, by CPU, memory and other resources, by taints, by node selectors and
// node affinity, and by spec.unschedulable. What it does not look at (ports, volumes, spreading, affinity
// between pods, and whatever plugins of a scheduler add) is said in Answer.Unchecked if a pod has it.
package whatif
