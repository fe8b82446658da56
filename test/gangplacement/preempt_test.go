package gangplacement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
)

// TestGangPreemptsInOneClique: pods of lower priority have to go, all of them in the clique that the gang gets.
func TestGangPreemptsInOneClique(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "preempts")
	important := s.Name
	_, err := cluster.Client.SchedulingV1().PriorityClasses().Create(t.Context(),
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: important}, Value: 1000}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.node("", "a", "a", "b").node("", "a", "b", "b")
	var low []string
	for i := range 6 {
		low = append(low, fmt.Sprintf("low-%d", i))
		s.Create(s.Pod(low[i], builder.FromTemplate("one")))
	}
	s.Running(low...)
	s.priority = important
	gang := s.gang("gang", 3, func(group *schedulingapi.PodGroup) {
		requiring(domain.Key{Attribute: s.clique()})(group)
		group.Spec.PriorityClassName = important
	})
	s.Running(gang...)
	require.Len(t, s.cliquesOf(gang), 1)
	gone := 0
	for _, name := range low {
		if pod, err := s.KnownPod(name); err != nil || pod.DeletionTimestamp != nil {
			gone++
		}
	}
	require.Equal(t, 3, gone)
}
