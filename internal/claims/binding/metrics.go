package binding

import (
	"errors"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// observe updates the scheduler's own metrics about binding conditions like the in-tree plugin: the duration once for
// each device of the pod, the number of allocations only for devices with binding conditions.
func observe(profile string, claims []*resourceapi.ResourceClaim, duration time.Duration, err error) {
	status := statusOf(err)
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			kube.ObserveBindingConditions(profile, result.Driver, status, duration, len(result.BindingConditions) > 0)
		}
	}
}

// statusOf returns the label value for the outcome of a wait.
func statusOf(err error) string {
	switch {
	case err == nil:
		return kube.BindingConditionsSuccess
	case errors.Is(err, ErrTimeout):
		return kube.BindingConditionsTimeout
	case errors.Is(err, ErrFailed):
		return kube.BindingConditionsFailed
	}
	return kube.BindingConditionsError
}
