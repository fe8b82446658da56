package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestClaimDeletedWhileItsPodRuns: whoever may remove a claim's finalizer can delete it while it is in use. Its device is kept as
// long as its pod runs, also when a claim of that name is made anew, and then the next pod gets it.
func TestClaimDeletedWhileItsPodRuns(t *testing.T) {
	t.Parallel()
	s := cluster.NewSpace(t, "claim-deleted", "", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.StartScheduler(harness.SchedulerOptions{})
	s.ClaimAndPod("runs", s.Want(1))
	s.Running("runs")

	deleteInUse(s, "runs")
	s.Create(builder.Claim("runs", s.Want(1)).Obj())
	s.ClaimAndPod("next", s.Want(1))
	s.Waiting("next", "held by another claim")
	require.Error(t, harness.Poll(t.Context(), 3*time.Second, func(context.Context) error {
		pod, err := s.KnownPod("next")
		if err == nil && pod.Spec.NodeName == "" {
			err = errors.New("it has no node")
		}
		return err
	}), "it must wait")

	s.DeletePod("runs")
	s.Running("next")
}

// deleteInUse removes a claim's finalizer and deletes it.
func deleteInUse(s *harness.Space, name string) {
	s.T.Helper()
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	_, err := claims.Patch(s.T.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(s.T, err)
	require.NoError(s.T, claims.Delete(s.T.Context(), name, metav1.DeleteOptions{}))
	s.ClaimGone(name)
}

// TestForceDeletedVictim: a victim that is deleted without waiting for its node may still run. Its claim is not deallocated by
// the scheduler but by the resourceclaim controller.
func TestForceDeletedVictim(t *testing.T) {
	t.Parallel()
	s := cluster.NewSpace(t, "force-deleted", "", 1)
	s.Devices(0, harness.Numbered(1)...)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	cluster.CreatePriorityClass(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Value: 1000})
	s.Create(builder.Claim("victim", s.Want(1)).Obj(), builder.Claim("preemptor", s.Want(1)).Obj())
	victim := s.Pod("victim", builder.Uses("victim"))
	victim.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "10m"}
	s.Create(victim)
	s.Running("victim")

	preemptor := s.Pod("preemptor", builder.Uses("preemptor"))
	preemptor.Spec.PriorityClassName = s.Name
	s.Create(preemptor)
	s.Eventually("see the victim terminate", func(context.Context) error {
		pod, err := s.KnownPod("victim")
		if err == nil && pod.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	require.NoError(t, cluster.Client.CoreV1().Pods(s.Name).Delete(t.Context(), "victim", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	s.Running("preemptor")
	var metrics harness.Metrics
	s.Eventually("read the scheduler's metrics", func(ctx context.Context) (err error) {
		metrics, err = scheduler.ReadMetrics(ctx)
		return err
	})
	require.Zero(t, metrics.Sum("quartermaster_released_claims_total"))
}
