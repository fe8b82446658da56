package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels            map[string]string
		wantName, wantKey string
	}{
		"in a group":    {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "train"}, wantName: "train", wantKey: "ml/train"},
		"in none":       {labels: map[string]string{"pod-group": "train"}},
		"no labels":     {},
		"an empty name": {labels: map[string]string{"scheduling.x-k8s.io/pod-group": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", Labels: tc.labels}}
			require.Equal(t, tc.wantName, NameOf(pod))
			require.Equal(t, tc.wantKey, KeyOf(pod))
		})
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	g, err := New(nil)
	require.NoError(t, err)
	_, err = g.Get("ml", "train")
	require.ErrorContains(t, err, "still being listed")

	train := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}}
	g.Set(train)
	got, err := g.Get("ml", "train")
	require.NoError(t, err)
	require.Same(t, train, got)
	_, err = g.Get("other", "train")
	require.EqualError(t, err, "PodGroup other/train (scheduling.x-k8s.io/v1alpha1), which the label scheduling.x-k8s.io/pod-group names: "+
		"there is none of that name in the pod's namespace; create it, or correct the label")

	g.Set()
	_, err = g.Get("ml", "train")
	require.ErrorContains(t, err, "there is none of that name")
}

func TestNil(t *testing.T) {
	t.Parallel()
	var g *Groups
	g.Run(t.Context(), nil)
	_, err := g.Get("ml", "train")
	require.ErrorContains(t, err, "does not look at PodGroups")
}

func TestNewRejectsConfig(t *testing.T) {
	t.Parallel()
	_, err := New(&rest.Config{Host: "https://127.0.0.1:1", QPS: 1, TLSClientConfig: rest.TLSClientConfig{CAFile: "/there/is/none"}})
	require.ErrorContains(t, err, "client for PodGroups")
}
