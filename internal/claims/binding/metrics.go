package binding

import (
	"errors"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// observe updates the scheduler's own metrics about binding conditions like the in-tree plugin: the duration once for
// each device of the pod, the number of allocations only for devices with binding conditions.
func observe(profile string, claims []*resourceapi.ResourceClaim, duration time.Duration, err error) {
	if schedmetrics.DRABindingConditionsPreBindDuration == nil || schedmetrics.DRABindingConditionsAllocationsTotal == nil {
		return // The scheduler's metrics are not set up in this process.
	}
	status := statusOf(err)
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(duration.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}

// statusOf returns the label value for the outcome of a wait.
func statusOf(err error) string {
	switch {
	case err == nil:
		return schedmetrics.BindingConditionsStatusSuccess
	case errors.Is(err, ErrTimeout):
		return schedmetrics.BindingConditionsStatusTimeout
	case errors.Is(err, ErrFailed):
		return schedmetrics.BindingConditionsStatusFailed
	}
	return schedmetrics.BindingConditionsStatusError
}
