package kube

import (
	"time"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Outcomes of waiting for binding conditions, as values of the label "status".
const (
	BindingConditionsSuccess = schedulermetrics.BindingConditionsStatusSuccess
	BindingConditionsTimeout = schedulermetrics.BindingConditionsStatusTimeout
	BindingConditionsFailed  = schedulermetrics.BindingConditionsStatusFailed
	BindingConditionsError   = schedulermetrics.BindingConditionsStatusError
)

// ObserveBindingConditions counts a device that was waited for, as the in-tree plugin does. It does nothing in a
// process that has not set up the metrics of kube-scheduler. Both metrics are alpha: a release may change their names
// and labels.
func ObserveBindingConditions(profile, driver, status string, duration time.Duration, hasConditions bool) {
	if schedulermetrics.DRABindingConditionsPreBindDuration == nil || schedulermetrics.DRABindingConditionsAllocationsTotal == nil {
		return
	}
	schedulermetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, driver, status).Observe(duration.Seconds())
	if hasConditions {
		schedulermetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, driver, status).Inc()
	}
}

// ActivePods returns the metric that has the length of the active queue.
func ActivePods() metrics.GaugeMetric { return schedulermetrics.ActivePods() }
