package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HoldArgs are arguments about devices that are kept for pods that have waited for long.
type HoldArgs struct {
	// HoldAfter is the time that a pod or a group waits before devices are held for it; the default is 5m. 0 means that nothing is
	// held for those that wait.
	HoldAfter *metav1.Duration `json:"holdAfter,omitempty"`
	// HoldAfterByPriorityClass are different times for pods of some priority classes.
	HoldAfterByPriorityClass map[string]metav1.Duration `json:"holdAfterByPriorityClass,omitempty"`
	// MaxHolds limits the pods and groups for which devices are held at the same time, and the bookings beside them. If profiles differ, the largest value
	// applies to all together. At most 64; the default is 8.
	MaxHolds *int32 `json:"maxHolds,omitempty"`
	// MaxHeldPercent limits the held devices to a part of the devices of each class, MaxHeldPercentPerNamespace those that are
	// held for pods of one namespace. If profiles differ, the largest values apply to all together. The defaults are 50.
	MaxHeldPercent             *int32 `json:"maxHeldPercent,omitempty"`
	MaxHeldPercentPerNamespace *int32 `json:"maxHeldPercentPerNamespace,omitempty"`
}

const (
	defaultHoldAfter      = 5 * time.Minute
	defaultMaxHolds       = 8
	maxMaxHolds           = 64
	defaultMaxHeldPercent = 50
)

func (a *HoldArgs) setDefaults() {
	setDefault(&a.HoldAfter, metav1.Duration{Duration: defaultHoldAfter})
	setDefault(&a.MaxHolds, defaultMaxHolds)
	setDefault(&a.MaxHeldPercent, defaultMaxHeldPercent)
	setDefault(&a.MaxHeldPercentPerNamespace, defaultMaxHeldPercent)
}

func (a *HoldArgs) validate() error {
	const fault = "arguments of plugin %s: %s is %v; it has to be %s"
	if a.HoldAfter.Duration < 0 {
		return fmt.Errorf(fault, Name, "holdAfter", a.HoldAfter.Duration, "at least 0, which means that nothing is held")
	}
	for _, class := range slices.Sorted(maps.Keys(a.HoldAfterByPriorityClass)) {
		if after := a.HoldAfterByPriorityClass[class].Duration; after < 0 {
			return fmt.Errorf(fault, Name, "holdAfterByPriorityClass of "+class, after, "at least 0, which means that nothing is held")
		}
	}
	if n := *a.MaxHolds; n < 0 || n > maxMaxHolds {
		return fmt.Errorf(fault, Name, "maxHolds", n, fmt.Sprintf("from 0 to %d", maxMaxHolds))
	}
	if n := *a.MaxHeldPercent; n < 0 || n > 100 {
		return fmt.Errorf(fault, Name, "maxHeldPercent", n, "from 0 to 100")
	}
	if n := *a.MaxHeldPercentPerNamespace; n < 0 || n > 100 {
		return fmt.Errorf(fault, Name, "maxHeldPercentPerNamespace", n, "from 0 to 100")
	}
	return nil
}

// Holds reports whether devices are held for any pods.
func (a *HoldArgs) Holds() bool {
	on := a.HoldAfter.Duration > 0
	for _, after := range a.HoldAfterByPriorityClass {
		on = on || after.Duration > 0
	}
	return on
}

// After returns the time after which devices are held for a pod, 0 if none are.
func (a *HoldArgs) After(pod *v1.Pod) time.Duration {
	if after, has := a.HoldAfterByPriorityClass[pod.Spec.PriorityClassName]; has {
		return after.Duration
	}
	return a.HoldAfter.Duration
}

func (a *HoldArgs) deepCopy() HoldArgs {
	return HoldArgs{
		clone(a.HoldAfter), maps.Clone(a.HoldAfterByPriorityClass), clone(a.MaxHolds), clone(a.MaxHeldPercent),
		clone(a.MaxHeldPercentPerNamespace),
	}
}
