package descheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	policyapi "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// testMoved: a descheduler that runs all the time evicts the pods of a tainted node. Other pods get claims and devices of their
// own on another node, and the first claims go.
func testMoved(t *testing.T) {
	s := newSpace(t, "moved", 2, 2)
	s.deploy(app, 2, withDevice)
	before := s.runs(app, 2)
	claims := []string{s.claimOf(before[0]), s.claimOf(before[1])}
	holders := harness.WatchHolders(s.Space)
	s.open(1)
	s.taint(0)
	s.descheduleAlways(violatingTaints)
	for i, pod := range before {
		s.leaves(pod)
		// It logs the eviction after the answer, and evicts again on a busy machine if it begins again before it has seen the eviction.
		s.Eventually("have the descheduler log that it evicted pod "+pod, func(context.Context) error {
			if s.evictionsOf(pod) == 0 {
				return errors.New("its log does not have it")
			}
			return nil
		})
		s.ClaimGone(claims[i])
	}
	after := s.runs(app, 2)
	s.on(1, after...)
	require.Empty(t, s.deschedule(violatingTaints))
	require.ElementsMatch(t, after, s.runs(app, 2))
	allocations, twice := holders.Seen()
	require.Empty(t, twice)
	require.Equal(t, 4, allocations)
	s.untaint(0)
	require.Equal(t, 2, s.NothingLeaked())
}

// testProtected: with PodsWithResourceClaims, only pods without claims have to leave a tainted node.
func testProtected(t *testing.T) {
	s := newSpace(t, "protected", 2, 2)
	s.deploy(app, 2, withDevice)
	s.deploy("plain", 1)
	withDevices, plain := s.runs(app, 2), s.runs("plain", 1)
	s.open(1)
	s.taint(0)
	require.Equal(t, plain, s.deschedule(violatingTaints.protecting(withClaims)))
	s.on(1, s.runs("plain", 1)...)
	require.ElementsMatch(t, withDevices, s.runs(app, 2))
	require.ElementsMatch(t, withDevices, s.deschedule(violatingTaints))
	s.on(1, s.runs(app, 2)...)
}

// testNoRoom: nodeFit does not know devices. It has a pod evicted whose device no other node has; what replaces it waits with
// Quartermaster's reason. PodsWithResourceClaims prevents that.
func testNoRoom(t *testing.T) {
	s := newSpace(t, "no-room", 1, 1)
	s.deploy(app, 1, withDevice)
	first := s.runs(app, 1)
	s.open(1)
	s.deploy("other", 1, withDevice)
	s.on(1, s.runs("other", 1)...)
	s.taint(0)
	require.Empty(t, s.deschedule(violatingTaints.protecting(withClaims)))
	require.Equal(t, first, s.deschedule(violatingTaints))
	s.settles(app, 0, 1, "untolerated taint", "held by")
	s.untaint(0)
	s.on(0, s.runs(app, 1)...)
}

// testEnding: an evicted pod keeps its device until it has ended.
func testEnding(t *testing.T) {
	s := newSpace(t, "ending", 1, 0)
	s.Create(endsSlowly(s.deployment(app, 1, withDevice)))
	first := s.runs(app, 1)
	s.open(1)
	s.taint(0)
	require.Equal(t, first, s.deschedule(violatingTaints))
	s.untaint(0)
	s.settles(app, 0, 1, "held by")
	require.NotEmpty(t, s.DeviceNames(first[0]))
	s.kill(first[0])
	s.on(0, s.runs(app, 1)...)
}

// testBudget: a PodDisruptionBudget bounds what wrong evictions cost. As long as what replaced a pod waits for a device, the others
// stay.
func testBudget(t *testing.T) {
	s := newSpace(t, "budget", 3, 1)
	s.Create(&policyapi.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyapi.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{builder.AppLabel: app}},
		},
	})
	s.deploy(app, 3, withDevice)
	s.runs(app, 3)
	s.open(1)
	s.taint(0)
	s.disruptionsAllowed(1)
	require.Len(t, s.deschedule(violatingTaints), 1)
	s.runs(app, 3)
	s.disruptionsAllowed(1)
	require.Len(t, s.deschedule(violatingTaints), 1)
	running, _ := s.settles(app, 2, 1, "held by")
	require.Empty(t, s.deschedule(violatingTaints))
	s.untaint(0)
	require.Subset(t, s.runs(app, 3), running)
}

// disruptionsAllowed waits until the budget allows so many evictions.
func (s *space) disruptionsAllowed(count int32) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("be allowed %d disruptions", count), func(ctx context.Context) error {
		budget, err := cluster.Client.PolicyV1().PodDisruptionBudgets(s.Name).Get(ctx, app, metav1.GetOptions{})
		if err == nil && budget.Status.DisruptionsAllowed != count {
			err = fmt.Errorf("%+v", budget.Status)
		}
		return err
	})
}
