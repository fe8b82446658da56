// Package status writes the status of PodGroups of scheduler-plugins, as the controller of that project does: of all
// groups in the cluster, whichever scheduler their pods use. It runs in the process of the leading scheduler.
//
// If two Quartermaster schedulers do not share an election, both write. They compute the same results, and each write
// applies only to the version of the group that it was computed from, so neither undoes the other's writes unless it sees the
// pods of an earlier time. It should not run beside scheduler-plugins' own controller: where that counts differently (see
// Next), the two overwrite each other. Then this one writes once a minute.
//
// # Phases
//
// Package status computes the status of a PodGroup of scheduler-plugins from the group and its pods. The phases are
// those of the PodGroup controller of scheduler-plugins, written one step at a time, so that watchers see the same
// sequence:
//
//	"" → Pending → Scheduling ⇄ Running → Finished
//	        ↖__________↲__________↲  ↘ Failed
//
// The package uses no server and no clock.
package status
