package kueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// testQuota: of three jobs with a device each, a quota of two admits two. The third waits although a device is free, until one
// of the others is done.
func testQuota(t *testing.T) {
	s := newSpace(t, "quota", queueOptions{quota: 2}, 3)
	for _, job := range []string{"first", "second"} {
		s.job(job, 1)
		s.runs(job, 1)
	}
	s.job("third", 1)
	s.says("third", "QuotaReserved", "False", "Pending", "insufficient unused quota for "+quotaName)
	s.suspended("third")
	s.outsider("outsider", 1)
	s.gone("outsider")
	s.finish("first")
	s.runs("third", 1)
}

// testExtended: claim templates and extended resources of the same class count against the same quota.
func testExtended(t *testing.T) {
	s := newSpace(t, "extended", queueOptions{quota: 2}, 3)
	asking := func(job *batchv1.Job) {
		using()(job)
		pod := &corev1.Pod{Spec: job.Spec.Template.Spec}
		builder.Extended(extended, "1")(pod)
		job.Spec.Template.Spec = pod.Spec
	}
	s.job("claims", 1)
	s.runs("claims", 1)
	s.job("resources", 1, asking)
	pods := s.runs("resources", 1)
	require.Len(t, s.devicesOf(pods), 1)
	s.job("third", 1, asking)
	s.says("third", "QuotaReserved", "False", "Pending", "insufficient unused quota for "+quotaName)
	s.suspended("third")
	s.finish("claims")
	s.runs("third", 1)
}

// testStopped: a job that Kueue stops gives its devices back, so that another pod gets them. Started again, it waits for them.
func testStopped(t *testing.T) {
	for name, way := range map[string]struct{ stop, start func(*space) }{
		"by its queue": {
			func(s *space) { patch(s.T, "ClusterQueue", "", s.Name, `{"spec":{"stopPolicy":"HoldAndDrain"}}`) },
			func(s *space) { patch(s.T, "ClusterQueue", "", s.Name, `{"spec":{"stopPolicy":"None"}}`) },
		},
		"by its workload": {
			func(s *space) { s.patchWorkload("job", `{"spec":{"active":false}}`) },
			func(s *space) { s.patchWorkload("job", `{"spec":{"active":true}}`) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "stopped", queueOptions{quota: 1}, 1)
			s.job("job", 1)
			s.runs("job", 1)
			way.stop(s)
			s.suspended("job")
			s.outsider("outsider", 1)
			way.start(s)
			s.waits("job", 1, "held by")
			s.gone("outsider")
			s.runs("job", 1)
		})
	}
}
