package descheduler

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// testExtended: nodeFit takes no node for one with extended resources of devices, so that it never has a pod with them evicted. Without
// nodeFit, PodsWithResourceClaims does not protect it.
func testExtended(t *testing.T) {
	s := newSpace(t, "extended", 1, 1)
	s.deploy(app, 1, builder.Extended(corev1.ResourceName(s.Implicit()), "1"))
	first := s.runs(app, 1)
	s.open(1)
	s.taint(0)
	require.Empty(t, s.deschedule(violatingTaints))
	anywhere := violatingTaints
	anywhere.nodeFit = false
	require.Equal(t, first, s.deschedule(anywhere.protecting(withClaims)))
	s.on(1, s.runs(app, 1)...)
}

// testShared: a claim that other pods use stays where it is. So what replaces an evicted pod comes back to the node, to be evicted by
// the next run.
func testShared(t *testing.T) {
	s := newSpace(t, "shared", 1, 1)
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	s.deploy(app, 2, builder.Using(builder.Uses("shared")...))
	s.runs(app, 2)
	s.open(1)
	duplicates := policy{plugin: "RemoveDuplicates", nodeFit: true}
	for range 2 {
		require.Len(t, s.deschedule(duplicates), 1)
		s.on(0, s.runs(app, 2)...)
	}
	require.Empty(t, s.deschedule(duplicates.protecting(withClaims)))
}
