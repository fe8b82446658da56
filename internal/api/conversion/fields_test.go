package conversion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAlphaClaim(t *testing.T) {
	t.Parallel()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mine": "stays"}}}
	require.Zero(t, AlphaClaimOf(claim))
	plain := claim.DeepCopy()
	shared := claim.Annotations

	want := AlphaClaim{Allocator: ByController, Classes: []string{"a", "b"}, Immediate: true, Exclusive: true, DeallocationRequested: true}
	SetAlphaClaim(claim, want)
	require.Equal(t, want, AlphaClaimOf(claim))
	require.False(t, SameAlphaClaim(claim, plain))
	require.Len(t, shared, 1, "the map may belong to others")

	SetAlphaClaim(claim, AlphaClaim{Allocator: ByClass})
	require.Equal(t, AlphaClaim{Allocator: ByClass}, AlphaClaimOf(claim))
	DropAlpha(claim)
	require.Empty(t, cmp.Diff(plain, claim))
}

// Nothing that a server has under that name gets through: the edge sets it always.
func TestAlphaFieldsOfTheServerAreReplaced(t *testing.T) {
	t.Parallel()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: "no JSON"}}}
	SetAlphaClaim(claim, AlphaClaim{})
	require.Empty(t, cmp.Diff(&resourceapi.ResourceClaim{}, claim))
	require.Zero(t, AlphaClaimOf(claim))
}

func TestAlphaClass(t *testing.T) {
	t.Parallel()
	class := &resourceapi.DeviceClass{}
	require.Zero(t, AlphaClassOf(class))
	want := AlphaClass{Structured: true, SuitableNodes: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}},
	}}}}
	SetAlphaClass(class, want)
	require.Equal(t, want, AlphaClassOf(class))
}
