// Package gangplacement is the scheduler plugin QuartermasterGangs: the part of gang scheduling that
// kube-scheduler leaves to one plugin of a profile. Quartermaster itself cannot be that one in every
// profile, so this one is enabled by name at these extension points, in the place of the plugin that is
// there by default:
//
//	QueueSort          pods of a group stand together in the queue
//	PlacementGenerate  for PodGroups of scheduling.k8s.io with an annotation (domain.Wish), a placement
//	                   for each domain; for others what TopologyPlacementGenerator does
//	PlacementScore     of the placements where the group fits, the one that leaves the least of the
//	                   devices that it takes
//
// The last two need the feature gates GenericWorkload and TopologyAwareWorkloadScheduling.
package gangplacement
