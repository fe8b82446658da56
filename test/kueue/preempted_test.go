package kueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// priorityLabel names Kueue's priority of a Job, which pods do not have.
const priorityLabel = "kueue.x-k8s.io/priority-class"

// testPreemptedByKueue: Kueue takes a job back for one of a higher priority, which gets the same devices. The first one runs again
// afterwards.
func testPreemptedByKueue(t *testing.T) {
	s := newSpace(t, "preempted", queueOptions{quota: 2, clusterQueue: "preemption: {withinClusterQueue: LowerPriority}"}, 2)
	apply(t, []byte(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: urgent}, value: 1000}`))
	s.job("low", 2)
	devices := s.devicesOf(s.runs("low", 2))
	s.job("high", 2, func(job *batchv1.Job) { job.Labels[priorityLabel] = "urgent" })
	s.says("low", "Preempted", "True", "InClusterQueue")
	s.suspended("low")
	require.ElementsMatch(t, devices, s.devicesOf(s.runs("high", 2)))
	s.says("low", "QuotaReserved", "False", "Pending", "insufficient unused quota for "+quotaName)
	s.finish("high")
	s.runs("low", 2)
}

// testPreemptedByUs: Quartermaster preempts a pod of an admitted job. The job, which keeps its quota, makes another pod that waits
// for the device.
func testPreemptedByUs(t *testing.T) {
	s := newSpace(t, "displaced", queueOptions{quota: 1}, 1)
	cluster.PriorityClass(t, "kueue-high", 1000)
	s.job("job", 1)
	first := s.runs("job", 1)
	devices := s.devicesOf(first)
	s.outsider("outsider", 1, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "kueue-high" })
	require.Equal(t, devices, s.DeviceNames("outsider"))
	second := s.waits("job", 1, "held by")
	require.NotEqual(t, first, second)
	s.says("job", "Admitted", "True", "Admitted")
	s.gone("outsider")
	s.runs("job", 1)
	require.Zero(t, s.NothingLeaked())
	s.finish("job")
}

// testTakenBack: Kueue takes a job back whose pod Quartermaster preempted, so that another job may have its quota.
func testTakenBack(t *testing.T) {
	s := newSpace(t, "recovery", queueOptions{quota: 1}, 1)
	cluster.PriorityClass(t, "kueue-high", 1000)
	s.job("job", 1)
	s.runs("job", 1)
	s.says("job", "PodsReady", "True", "Started")
	s.outsider("outsider", 1, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "kueue-high" })
	s.says("job", "Evicted", "True", "PodsReadyTimeout")
	s.gone("outsider")
	s.runs("job", 1)
}
