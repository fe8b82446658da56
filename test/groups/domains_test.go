package groups

import (
	"testing"

	"github.com/stretchr/testify/require"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestTightestClique: a gang is placed in the clique in which it leaves the fewest devices, so that the gang that
// comes next has the larger one, whole.
func TestTightestClique(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-tightest")
	s.node("", "a", "a").node("", "a", "a").node("", "a", "a").node("", "b", "b").node("", "b", "b").node("", "c", "c", "c")
	required := requiring(domain.Key{Attribute: s.clique()})
	small := s.gang("small", 4, required)
	s.Running(small...)
	require.Equal(t, map[string]int{"b": 4}, s.cliquesOf(small))
	large := s.gang("large", 6, required)
	s.Running(large...)
	require.Equal(t, map[string]int{"a": 6}, s.cliquesOf(large))
	require.Equal(t, 3, s.NothingLeaked())
}

// TestNodesInTwoCliques: nodes do not decide in which clique a pod is, so that its devices have to be chosen for that.
func TestNodesInTwoCliques(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-mixed")
	s.node("", "a", "b", "b").node("", "a", "b", "b").node("", "a")
	gang := s.gang("gang", 4, requiring(domain.Key{Attribute: s.clique()}))
	s.Running(gang...)
	require.Equal(t, map[string]int{"b": 4}, s.cliquesOf(gang))
	three := s.gang("three", 3, requiring(domain.Key{Attribute: s.clique()}))
	s.Running(three...)
	require.Equal(t, map[string]int{"a": 3}, s.cliquesOf(three))
}

// TestRack: by the label of nodes, as the API has it and with our annotation. Of several racks where the gang
// fits, it is the one that has the fewest devices left.
func TestRack(t *testing.T) {
	t.Parallel()
	for name, wish := range map[string]func(*domainSpace) func(*schedulingapi.PodGroup){
		"api":       func(s *domainSpace) func(*schedulingapi.PodGroup) { return s.inRack },
		"required":  func(s *domainSpace) func(*schedulingapi.PodGroup) { return requiring(domain.Key{Label: s.rack()}) },
		"preferred": func(s *domainSpace) func(*schedulingapi.PodGroup) { return preferring(domain.Key{Label: s.rack()}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDomainSpace(t, "domain-rack-"+name)
			s.node("r0", "x").node("r0", "x").node("r0", "x").node("r1", "x").node("r1", "x").node("r2", "x")
			gang := s.gang("gang", 2, wish(s))
			s.Running(gang...)
			require.Equal(t, map[string]int{"r1": 2}, s.racksOf(gang))
			require.Equal(t, 4, s.NothingLeaked())
		})
	}
}

// TestPreferredInSeveral: no clique has room for all, and two do.
func TestPreferredInSeveral(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-several")
	s.node("", "a", "a").node("", "b", "b", "b").node("", "c").node("", "d")
	gang := s.gang("gang", 5, preferring(domain.Key{Attribute: s.clique()}))
	s.Running(gang...)
	require.Equal(t, map[string]int{"a": 2, "b": 3}, s.cliquesOf(gang))
}

// TestBothConstraints: a clique within a rack.
func TestBothConstraints(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-both")
	s.node("r0", "a", "a").node("r1", "a", "b").node("r1", "b", "b")
	gang := s.gang("gang", 3, func(group *schedulingapi.PodGroup) {
		s.inRack(group)
		requiring(domain.Key{Attribute: s.clique()})(group)
	})
	s.Running(gang...)
	require.Equal(t, map[string]int{"b": 3}, s.cliquesOf(gang))
	require.Equal(t, map[string]int{"r1": 3}, s.racksOf(gang))
}

// TestClaimOfTheGroup: what was planned for the group's claim in a clique where the gang does not fit is given up.
func TestClaimOfTheGroup(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-claim")
	s.node("", "a", "a").node("", "b", "b", "b")
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	gang := s.gang("gang", 2, func(group *schedulingapi.PodGroup) {
		requiring(domain.Key{Attribute: s.clique()})(group)
		for _, use := range builder.Uses("shared") {
			group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim(use))
		}
	}, append(builder.FromTemplate("one"), builder.Uses("shared")...)...)
	s.Running(gang...)
	require.Equal(t, map[string]int{"b": 4}, s.cliquesOf(gang), "the shared one counts twice")
	require.Equal(t, "podgroups", s.LiveClaim("shared").Status.ReservedFor[0].Resource)
	require.Equal(t, 2, s.NothingLeaked())
}
