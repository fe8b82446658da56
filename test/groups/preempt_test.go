package groups

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// important is a priority class for groups and pods that may have others evicted.
const important = "groups-important"

// ofImportance gives a group and its pods the priority class.
func ofImportance(group *schedulingapi.PodGroup) *schedulingapi.PodGroup {
	group.Spec.PriorityClassName = important
	return group
}

// createImportantMembers is createMembers for a group with the priority class.
func (s *space) createImportantMembers(group string, count int, uses []corev1.PodResourceClaim) (names []string) {
	s.T.Helper()
	for i := range count {
		pod := s.Pod(fmt.Sprintf("%s-%d", group, i), uses)
		pod.Spec.PriorityClassName = important
		s.createMember(group, pod)
		names = append(names, pod.Name)
	}
	return names
}

// evicted counts the pods that are gone, or about to be.
func (s *space) evicted(pods []string) (gone int) {
	for _, name := range pods {
		if pod, err := s.KnownPod(name); err != nil || pod.DeletionTimestamp != nil {
			gone++
		}
	}
	return gone
}

// TestGangPreempts: as many pods go as the gang needs devices, and it runs.
func TestGangPreempts(t *testing.T) {
	t.Parallel()
	cluster.PriorityClass(t, important, 1000)
	s := newSpace(t, "preempts", 2, 3)
	s.Create(builder.Claim("one", s.Want(1)).Template(), builder.Claim("shared", s.Want(1)).Obj())
	var low []string
	for i := range 6 {
		low = append(low, fmt.Sprintf("low-%d", i))
		s.Create(s.Pod(low[i], builder.FromTemplate("one")))
	}
	s.Running(low...)
	s.Create(ofImportance(group("gang", 2, builder.Uses("shared")...)))
	s.Running(s.createImportantMembers("gang", 2, append(builder.FromTemplate("one"), builder.Uses("shared")...))...)
	require.Equal(t, 3, s.evicted(low), "two devices for the pods, and one that they share")
}

// TestGangPreemptsOrNot: a gang that would not fit as a whole has nobody evicted.
func TestGangPreemptsOrNot(t *testing.T) {
	t.Parallel()
	cluster.PriorityClass(t, important, 1000)
	s := newSpace(t, "preempts-not", 1, 3)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	var low []string
	for i := range 3 {
		low = append(low, fmt.Sprintf("low-%d", i))
		s.Create(s.Pod(low[i], builder.FromTemplate("one")))
	}
	s.Running(low...)
	s.Create(ofImportance(group("gang", 4)))
	for _, pod := range s.createImportantMembers("gang", 4, builder.FromTemplate("one")) {
		s.Waiting(pod)
	}
	require.Zero(t, s.evicted(low))
}

// TestClaimOfGroupIsPreempted: a group's claim is free when all of its pods on nodes are gone, though the group
// stays.
func TestClaimOfGroupIsPreempted(t *testing.T) {
	t.Parallel()
	cluster.PriorityClass(t, important, 1000)
	s := newSpace(t, "claim-preempted", 1, 1)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), builder.Claim("one", s.Want(1)).Template(), group("gang", 2, builder.Uses("shared")...))
	low := s.createMembers("gang", 2, builder.Uses("shared"))
	s.Running(low...)
	preemptor := s.Pod("preemptor", builder.FromTemplate("one"))
	preemptor.Spec.PriorityClassName = important
	s.Create(preemptor)
	s.Running("preemptor")
	require.Equal(t, 2, s.evicted(low))
	s.Eventually("the claim is free", func(context.Context) error {
		if claim, err := s.KnownClaim("shared"); err != nil || claim.Status.Allocation != nil {
			return errors.Join(err, errors.New("it is allocated"))
		}
		return nil
	})
}
