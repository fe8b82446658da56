// Package gangplacement is the scheduler plugin QuartermasterGangs: the part of gang scheduling that kube-scheduler
// leaves to one plugin of a profile. The plugin Quartermaster cannot be that one in every profile. So
// QuartermasterGangs is enabled by name at these extension points, in place of the default plugins:
//
//	QueueSort          keeps the pods of a group together in the queue
//	PlacementGenerate  for PodGroups of scheduling.k8s.io with an annotation (domain.Wish), makes a placement
//	                   for each domain; for others does the same as TopologyPlacementGenerator
//	PlacementScore     prefers, of the placements where the group fits, the one that leaves the least of the
//	                   devices that it takes
//
// The last two need the feature gates GenericWorkload and TopologyAwareWorkloadScheduling.
package gangplacement
