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
// process that has not set up the metrics of kube-scheduler. Their names and labels may change while the feature is beta.
func ObserveBindingConditions(profile, driver, status string, duration time.Duration, hasConditions bool) {
	if schedulermetrics.DRABindingConditionsPreBindDuration == nil || schedulermetrics.DRABindingConditionsAllocationsTotal == nil {
		return
	}
	schedulermetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, driver, status).Observe(duration.Seconds())
	if hasConditions {
		schedulermetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, driver, status).Inc()
	}
}

// CountExtendedResourceClaim counts an attempt to create a pod's claim for extended resources. The labels of this metric
// have changed in several releases.
func CountExtendedResourceClaim(created bool) {
	status := "failure"
	if created {
		status = "success"
	}
	schedulermetrics.ResourceClaimCreatesTotal.WithLabelValues(status, "false", "", "Pod").Inc()
}

// ActivePods returns the metric that has the length of the active queue.
func ActivePods() metrics.GaugeMetric { return schedulermetrics.ActivePods() }
