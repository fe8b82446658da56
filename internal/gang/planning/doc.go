// Package planning finds nodes and devices for all pods of a gang in one scheduling cycle.
//
//	Planner    plans; Outcome holds the plan, or what is missing
//	alike.go   which pods are alike, by their claims and by shape.go
//	order.go   which nodes are tried, in which order
//	domains.go which domains are tried or filled, by the room that room.go measures
//	attempt.go one search in an area, with judge.go
//	told.go    the message for a gang that does not fit
package planning
