// Package planning plans a gang.
//
//	Planner    plans, within one cycle of kube-scheduler; Outcome has the plan, or what is missing
//	alike.go   which of the pods are alike, by their claims and by shape.go
//	order.go   which nodes are tried, in which order
//	domains.go which domains are tried or filled, by the room that room.go has measured
//	attempt.go one search in some area, by judge.go
//	told.go    what is said if the gang does not fit
package planning
