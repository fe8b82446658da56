package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestContexts(t *testing.T) {
	t.Parallel()
	for _, version := range []Version{V1alpha3, V1alpha2} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			s := startServer(t, map[Version][]string{version: {claimResource, contextResource}})
			client, _ := s.connect()
			require.NoError(t, Of(client).ask(t.Context(), 0))
			require.Equal(t, version, Of(client).Version(contextResource))
			s.add(contextResource, "pod")
			contexts := ClassicOf(client).Contexts("default")

			found, err := contexts.Get(t.Context(), "pod", metav1.GetOptions{})
			require.NoError(t, err)
			found.Spec = PodSchedulingContextSpec{SelectedNode: "b", PotentialNodes: []string{"a", "b"}}
			found.Status.ResourceClaims = []ClaimSchedulingStatus{{Name: "gpu", UnsuitableNodes: []string{"a"}}}
			before := found.DeepCopy()
			updated, err := contexts.UpdateStatus(t.Context(), found, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(before, found), "the argument is not changed")
			require.NotEqual(t, found.ResourceVersion, updated.ResourceVersion)
			require.Equal(t, []string{"a"}, updated.OfClaim("gpu").UnsuitableNodes)
			require.Nil(t, updated.OfClaim("other"))

			list, err := contexts.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Equal(t, updated.ResourceVersion, list.ResourceVersion)
			require.Empty(t, cmp.Diff([]PodSchedulingContext{*updated}, list.Items))

			watch, err := ClassicOf(client).Contexts("").Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer watch.Stop()
			s.add(contextResource, "next")
			event := <-watch.ResultChan()
			require.IsType(t, &PodSchedulingContext{}, event.Object)
			require.Equal(t, "next", event.Object.(*PodSchedulingContext).Name)
		})
	}
}

// A server need not have contexts, and nothing waits for them.
func TestWithoutContexts(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1beta1: without(ruleResource), V1alpha3: {ruleResource}})
	client, _ := s.connect()
	require.NoError(t, Of(client).ask(t.Context(), 0))
	require.False(t, Of(client).lacksAny())
	require.NotContains(t, Of(client).text(), contextResource)
	s.took()
	contexts := ClassicOf(client).Contexts("default")
	list, err := contexts.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
	_, err = contexts.Create(t.Context(), &PodSchedulingContext{}, metav1.CreateOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Empty(t, s.took(), "the server was not asked")
}

// A copy shares nothing.
func TestContextsAreCopied(t *testing.T) {
	t.Parallel()
	list := &PodSchedulingContextList{Items: []PodSchedulingContext{{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       PodSchedulingContextSpec{SelectedNode: "x", PotentialNodes: []string{"x"}},
		Status:     PodSchedulingContextStatus{ResourceClaims: []ClaimSchedulingStatus{{Name: "c", UnsuitableNodes: []string{"y"}}}},
	}}}
	copied := list.DeepCopyObject().(*PodSchedulingContextList)
	require.Empty(t, cmp.Diff(list, copied))
	item, other := &list.Items[0], &copied.Items[0]
	require.NotSame(t, &item.Spec.PotentialNodes[0], &other.Spec.PotentialNodes[0])
	require.NotSame(t, &item.Status.ResourceClaims[0], &other.Status.ResourceClaims[0])
	require.NotSame(t, &item.Status.ResourceClaims[0].UnsuitableNodes[0], &other.Status.ResourceClaims[0].UnsuitableNodes[0])
	other.Labels["a"] = "c"
	require.Equal(t, "b", item.Labels["a"])
}
