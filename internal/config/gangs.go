package config

import (
	"fmt"
)

// GangArgs are arguments about pods that are scheduled together. Arguments that the plugin Coscheduling of
// scheduler-plugins also has keep its names and defaults.
type GangArgs struct {
	// PermitWaitingTimeSeconds is the time that reserved pods of a PodGroup wait for the others, unless the group
	// sets it (scheduleTimeoutSeconds). If profiles differ, the largest value applies to all. At least 1; the default
	// is 60.
	PermitWaitingTimeSeconds *int64 `json:"permitWaitingTimeSeconds,omitempty"`
	// PodGroupBackoffSeconds is the least pause after a failed attempt of a PodGroup, whatever happens. If profiles
	// differ, the largest value applies to all. 0, the default, means a pause that depends on the duration of
	// attempts.
	PodGroupBackoffSeconds *int64 `json:"podGroupBackoffSeconds,omitempty"`
	// GangStepBudget limits the placements of pods during the search for nodes for all pods of a group together, if
	// the nodes of some pods matter to others. A pod may be placed repeatedly. At least 100; the default is 10000. Up to twenty times as often, at
	// least 200,000 times, it is asked whether a pod fits on a node.
	GangStepBudget *int64 `json:"gangStepBudget,omitempty"`
}

const (
	defaultPermitWaitingTime = 60 // seconds
	minGangStepBudget        = 100
	defaultGangStepBudget    = 10_000
)

func (a *GangArgs) setDefaults() {
	setDefault(&a.PermitWaitingTimeSeconds, defaultPermitWaitingTime)
	setDefault(&a.PodGroupBackoffSeconds, 0)
	setDefault(&a.GangStepBudget, defaultGangStepBudget)
}

func (a *GangArgs) validate() error {
	switch {
	case *a.PermitWaitingTimeSeconds < 1:
		return fmt.Errorf("arguments of plugin %s: permitWaitingTimeSeconds is %d; it has to be at least 1, so that pods of a group can wait for each other",
			Name, *a.PermitWaitingTimeSeconds)
	case *a.PodGroupBackoffSeconds < 0:
		return fmt.Errorf("arguments of plugin %s: podGroupBackoffSeconds is %d; it must not be negative, and 0 leaves it to the scheduler",
			Name, *a.PodGroupBackoffSeconds)
	case *a.GangStepBudget < minGangStepBudget:
		return fmt.Errorf("arguments of plugin %s: gangStepBudget is %d; it has to be at least %d, so that ordinary groups find nodes",
			Name, *a.GangStepBudget, minGangStepBudget)
	}
	return nil
}

func (a *GangArgs) deepCopy() GangArgs {
	return GangArgs{clone(a.PermitWaitingTimeSeconds), clone(a.PodGroupBackoffSeconds), clone(a.GangStepBudget)}
}
