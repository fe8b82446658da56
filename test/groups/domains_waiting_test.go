package groups

import (
	"testing"

	"github.com/stretchr/testify/require"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNoCliqueIsLargeEnough: there are devices enough, but in no clique. The gang waits, nothing is held for it, and it
// runs as soon as a clique is large enough.
func TestNoCliqueIsLargeEnough(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-none")
	s.node("", "a", "a").node("", "a", "b").node("", "b", "b")
	gang := s.gang("gang", 4, requiring(domain.Key{Attribute: s.clique()}))
	for _, pod := range gang {
		s.Waiting(pod)
	}
	require.Zero(t, s.Allocated())
	require.Equal(t, 6, s.NothingLeaked())
	for _, pod := range gang {
		s.Waiting(pod)
	}
	s.node("", "b")
	s.RunningSoon(gang...)
	require.Equal(t, map[string]int{"b": 4}, s.cliquesOf(gang))
}

// TestNoClique: no device has the attribute. The reason says so, and a slice with such devices helps.
func TestNoClique(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-no-attribute")
	s.node("")
	gang := s.gang("gang", 2, requiring(domain.Key{Attribute: s.clique()}))
	for _, pod := range gang {
		s.Waiting(pod, "the PodGroup needs a domain by attribute="+s.clique(), "reaches a device with attribute "+s.clique())
	}
	s.Create(s.Slice(0, builder.Device("a-0").Attr("clique", "a"), builder.Device("a-1").Attr("clique", "a")).Obj())
	s.RunningSoon(gang...)
	require.Equal(t, map[string]int{"a": 2}, s.cliquesOf(gang))
}

// TestWrongAnnotation: nobody knows what is meant, until it is corrected.
func TestWrongAnnotation(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-wrong")
	s.node("r0", "a").node("r1", "b")
	gang := s.gang("gang", 2, func(group *schedulingapi.PodGroup) {
		group.Annotations = map[string]string{domain.RequiredAnnotation: "clique"}
	})
	for _, pod := range gang {
		s.Waiting(pod, domain.RequiredAnnotation+" of the PodGroup is \"clique\"", "attribute=gpu.example.com/clique")
	}
	s.changeGroup("gang", preferring(domain.Key{Attribute: s.clique()}))
	s.RunningSoon(gang...)
	require.Equal(t, map[string]int{"a": 1, "b": 1}, s.cliquesOf(gang))
}

// TestMoreOfAGang: a pod that comes later is placed where the others run, or waits.
func TestMoreOfAGang(t *testing.T) {
	t.Parallel()
	s := newDomainSpace(t, "domain-more")
	s.node("", "a", "a", "a", "b", "b", "b", "b")
	gang := s.gang("gang", 2, requiring(domain.Key{Attribute: s.clique()}))
	s.Running(gang...)
	require.Equal(t, map[string]int{"a": 2}, s.cliquesOf(gang))
	s.member("gang", "third")
	s.Running("third")
	require.Equal(t, map[string]int{"a": 1}, s.cliquesOf([]string{"third"}))
	s.member("gang", "fourth")
	s.Waiting("fourth")
	require.Equal(t, 3, s.Allocated())
}
