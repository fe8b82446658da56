package dra

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// DevicesHeld is the condition of a pod that waits while the scheduler holds devices for it, or for its group. Its message says where these
// are, how many are in use, and since when it waits.
const DevicesHeld v1.PodConditionType = "quartermaster-dra.github.io/DevicesHeld"

// HeldFor returns the condition of a pod for which devices are held, else nil.
func HeldFor(pod *v1.Pod) *v1.PodCondition {
	all := pod.Status.Conditions
	i := slices.IndexFunc(all, func(condition v1.PodCondition) bool {
		return condition.Type == DevicesHeld && condition.Status == v1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}
