// Package trial tries out where the pods of a gang may be: it is the gang.Judge for pods with ResourceClaims.
//
//	Trial         the pods of a gang on nodes, as far as they were added; nothing of it lasts
//	unit.go       devices for all claims on a node at once, so that those chosen for one pod are no obstacle to the next
//	beside.go     what is free beside all that is planned for the gang
//	claims.go     claims that pods on several nodes use
//	ties.go       devices that several nodes reach: what to do if those planned elsewhere are in the way
//	together.go   whether there are too few devices, on several nodes taken together
//	plan.go       which devices are the best, once it is known who goes where
//
// What pods need besides devices is for Others to say.
package trial
