package quartermaster

import (
	"errors"
	"time"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// observeBinding feeds the scheduler's own metrics about binding conditions, in the same
// way as the in-tree plugin does: the duration counts once for each device of the pod,
// the number of allocations for those with binding conditions only.
func (pl *Quartermaster) observeBinding(c *cycle, duration time.Duration, err error) {
	if schedmetrics.DRABindingConditionsPreBindDuration == nil || schedmetrics.DRABindingConditionsAllocationsTotal == nil {
		return // Nobody has set up the scheduler's metrics in this process.
	}
	profile, status := pl.handle.ProfileName(), bindingStatus(err)
	for _, podClaim := range c.claims {
		allocation := podClaim.claim.Status.Allocation
		if allocation == nil {
			continue
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(duration.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}

// bindingStatus is the label for how the wait has ended.
func bindingStatus(err error) string {
	switch {
	case err == nil:
		return schedmetrics.BindingConditionsStatusSuccess
	case errors.Is(err, errBindingTimeout):
		return schedmetrics.BindingConditionsStatusTimeout
	case errors.Is(err, errBindingFailed):
		return schedmetrics.BindingConditionsStatusFailed
	}
	return schedmetrics.BindingConditionsStatusError
}
