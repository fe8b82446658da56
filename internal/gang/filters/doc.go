// Package filters runs the other plugins of kube-scheduler for the pods of a gang: CPU and memory, ports, affinity,
// topology spread constraints, and all other Filter plugins of the profile.
//
//	Others     holds pods of the gang on nodes of the snapshot, where they count for later ones; it implements devices.Others
//	ask.go     filters one node, with the pods that are nominated for it, and counts how many pods of a class it takes
//	recount.go counts pods again whose devices take resources of their node
//	spread.go  counts topology spread constraints once more
//	Without    hides the nominations of the gang's own pods
//
// Plugins learn of added pods through the NodeInfo and their PreFilter extensions only. So a plan may turn out to be
// impossible when the pods are bound, and the gang is planned again: when VolumeBinding finds the same unbound
// PersistentVolume for several pods, or room in a CSIStorageCapacity for the volume of each but not of all; when
// several pods of the gang use one ReadWriteOncePod claim that is not in use yet; and when PodTopologySpread has
// default constraints with DoNotSchedule.
package filters
