package descheduler

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// testPreempted: a pod that Quartermaster preempts is not evicted once more while it ends, and the pod for which it goes keeps its
// nomination.
func testPreempted(t *testing.T) {
	s := newSpace(t, "preempted", 1, 0)
	cluster.PriorityClass(t, "descheduler-high", 1000)
	s.Create(endsSlowly(s.deployment(app, 1, withDevice)))
	victim := s.runs(app, 1)[0]
	s.open(1)
	s.deploy("high", 1, withDevice, func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = "descheduler-high"
		pod.Spec.Tolerations = []corev1.Toleration{{Key: maintenance, Operator: corev1.TolerationOpExists}}
	})
	s.leaves(victim)
	s.nominated("high", 0)
	s.taint(0)
	ends := s.LivePod(victim).DeletionTimestamp
	require.Empty(t, s.deschedule(violatingTaints))
	require.Equal(t, ends, s.LivePod(victim).DeletionTimestamp)
	require.Zero(t, s.evictionsOf(victim))
	s.nominated("high", 0)
	s.kill(victim)
	s.on(0, s.runs("high", 1)...)
	s.settles(app, 0, 1, "untolerated taint")
	require.Empty(t, s.deschedule(violatingTaints))
}

// nominated waits until the only pod of a Deployment is nominated for a node.
func (s *space) nominated(deployment string, node int) {
	s.T.Helper()
	s.Eventually("nominate a node for "+deployment, func(context.Context) error {
		pods := s.podsOf(deployment)
		if len(pods) != 1 || pods[0].Status.NominatedNodeName != s.Node(node) {
			return fmt.Errorf("there are %d pods, or one without it", len(pods))
		}
		return nil
	})
}
