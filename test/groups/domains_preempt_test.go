package groups

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestGangPreemptsInOneClique: pods of lower priority have to go, all of them in the clique that the gang gets.
func TestGangPreemptsInOneClique(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-preempts")
	important := s.Name
	cluster.PriorityClass(t, important, 1000)
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
	require.Equal(t, 3, s.evicted(low))
}
