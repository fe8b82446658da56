// Package others has the other plugins of kube-scheduler judge where the pods of a gang may be: CPU and memory, ports,
// affinity, topology spread constraints, and whatever else the profile has Filter plugins for.
//
//	Others     pods of the gang on nodes of the snapshot: those that were added before count; it implements trial.Others
//	ask.go     one question to a node, with pods that are nominated for it
//	spread.go  topology spread constraints, which are counted here once more
//	room.go    how many pods of a class a node takes
//	Without    pods of the gang itself are not nominated, as far as the gang is concerned
//
// Plugins learn of pods that are added by the NodeInfo and by their PreFilter extensions. What they look up elsewhere they
// do not see, and so a plan may turn out not to be possible when the pods are bound, and is made anew: when VolumeBinding
// finds for several pods the same PersistentVolume without a claim, or room for the volume of each, but not of all, in a
// CSIStorageCapacity; when several pods of the gang use one claim with ReadWriteOncePod that nobody uses yet; and when
// PodTopologySpread has default constraints with DoNotSchedule.
package others
