package crd

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
	require.False(t, g.HasSynced())

	train := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}}
	g.Set(train)
	got, err := g.Get("ml", "train")
	require.NoError(t, err)
	require.Same(t, train, got)
	require.True(t, g.HasSynced())
	_, err = g.Get("other", "train")
	require.EqualError(t, err, "PodGroup other/train (scheduling.x-k8s.io/v1alpha1) which the label scheduling.x-k8s.io/pod-group names: "+
		"there is none of that name in the pod's namespace; create it or correct the label")

	g.Set()
	_, err = g.Get("ml", "train")
	require.ErrorContains(t, err, "there is none of that name")
}

// A late listener is told of the existing PodGroups. Set reports its changes.
func TestOnChange(t *testing.T) {
	t.Parallel()
	g, err := New(nil)
	require.NoError(t, err)
	heard := func() func() []string {
		var changes []string
		g.OnChange(func(before, after *v1alpha1.PodGroup) {
			_, change := describe(before, after)
			changes = append(changes, change)
		})
		return func() []string {
			result := changes
			changes = nil
			return result
		}
	}
	group := func(name string, minMember int32) *v1alpha1.PodGroup {
		return &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}}
	}
	early := heard()
	serve := group("serve", 1)
	g.Set(group("train", 2), serve)
	require.ElementsMatch(t, []string{"train –→2", "serve –→1"}, early())
	late := heard()
	require.ElementsMatch(t, []string{"train –→2", "serve –→1"}, late())
	g.Set(group("train", 3), serve)
	require.Equal(t, []string{"train 2→3"}, early())
	require.Equal(t, []string{"train 2→3"}, late())
	g.Set(group("train", 3))
	require.ElementsMatch(t, []string{"serve 1→–", "train 3→3"}, early())
}

func TestNewRejectsConfig(t *testing.T) {
	t.Parallel()
	_, err := New(&rest.Config{Host: "https://127.0.0.1:1", QPS: 1, TLSClientConfig: rest.TLSClientConfig{CAFile: "/there/is/none"}})
	require.ErrorContains(t, err, "client for podgroups.scheduling.x-k8s.io")
}
