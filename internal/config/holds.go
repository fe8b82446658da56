package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// HoldArgs are arguments about devices that are kept for pods that have waited for long.
type HoldArgs struct {
	// HoldAfter is the time that a pod or a group waits before devices are held for it. 0, the default, means that nothing is
	// held.
	HoldAfter *metav1.Duration `json:"holdAfter,omitempty"`
	// HoldAfterByPriorityClass are different times for pods of some priority classes.
	HoldAfterByPriorityClass map[string]metav1.Duration `json:"holdAfterByPriorityClass,omitempty"`
	// MaxHolds limits the pods and groups for which devices are held at the same time. If profiles differ, the largest value
	// applies to all together. At most 64; the default is 8.
	MaxHolds *int32 `json:"maxHolds,omitempty"`
	// MaxHeldPercent limits the held devices to a part of the devices of each class, MaxHeldPercentPerNamespace those that are
	// held for pods of one namespace. If profiles differ, the largest values apply to all together. The defaults are 50.
	MaxHeldPercent             *int32 `json:"maxHeldPercent,omitempty"`
	MaxHeldPercentPerNamespace *int32 `json:"maxHeldPercentPerNamespace,omitempty"`
}

const (
	defaultMaxHolds       = 8
	maxMaxHolds           = 64
	defaultMaxHeldPercent = 50
)

func (a *HoldArgs) setDefaults() {
	if a.HoldAfter == nil {
		a.HoldAfter = &metav1.Duration{}
	}
	if a.MaxHolds == nil {
		a.MaxHolds = ptr.To[int32](defaultMaxHolds)
	}
	for _, percent := range []**int32{&a.MaxHeldPercent, &a.MaxHeldPercentPerNamespace} {
		if *percent == nil {
			*percent = ptr.To[int32](defaultMaxHeldPercent)
		}
	}
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

// After returns the time after which devices are held for a pod, 0 if none are.
func (a *HoldArgs) After(pod *v1.Pod) time.Duration {
	if after, has := a.HoldAfterByPriorityClass[pod.Spec.PriorityClassName]; has {
		return after.Duration
	}
	return a.HoldAfter.Duration
}

func (a *HoldArgs) deepCopy() HoldArgs {
	c := *a
	c.HoldAfterByPriorityClass = maps.Clone(a.HoldAfterByPriorityClass)
	if a.HoldAfter != nil {
		c.HoldAfter = ptr.To(*a.HoldAfter)
	}
	for _, number := range []**int32{&c.MaxHolds, &c.MaxHeldPercent, &c.MaxHeldPercentPerNamespace} {
		if *number != nil {
			*number = ptr.To(**number)
		}
	}
	return c
}
