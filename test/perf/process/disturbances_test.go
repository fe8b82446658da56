package main

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var templates = filepath.Join("..", "testdata", "templates")

func TestUpgrade(t *testing.T) {
	slices, err := drivers(options{templates: templates, nodes: 1, devices: 3})
	require.NoError(t, err)
	slice := slices[0]
	before := slice.DeepCopy()
	upgrade(slice)
	require.Equal(t, before.Spec.Pool.Generation+1, slice.Spec.Pool.Generation)
	seen := make(map[string]bool)
	for i := range before.Spec.Devices {
		was, is := before.Spec.Devices[i].Attributes, slice.Spec.Devices[i].Attributes
		require.NotEqual(t, was[versionAttribute], is[versionAttribute])
		require.Len(t, is, len(was), "the template's devices have an attribute of that name")
		seen[*is[versionAttribute].VersionValue] = true
		delete(was, versionAttribute)
		delete(is, versionAttribute)
	}
	require.Len(t, seen, 1)
	slice.Spec.Pool.Generation--
	require.Equal(t, before, slice, "nothing else changes")
}

func TestSpread(t *testing.T) {
	require.Equal(t, []int{0, 3, 6}, spread(10, 3))
	require.Equal(t, []int{0, 1, 2}, spread(3, 3))
	require.Empty(t, spread(10, 0))
}

// TestFlapperRestores checks that the cluster is the same afterwards, whatever the nodes were when the last pod
// was scheduled.
func TestFlapperRestores(t *testing.T) {
	ctx := t.Context()
	o := options{templates: templates, nodes: 40, devices: 2}
	client := fake.NewClientset()
	require.NoError(t, createDrivers(ctx, client, o))
	s := &session{client: client, options: o}
	f, err := newFlapper(ctx, s)
	require.NoError(t, err)
	require.Len(t, f.slices, 4)

	require.NoError(t, f.change(ctx, false, true))
	taints, slices := state(t, s)
	require.Equal(t, 4, taints)
	require.Len(t, slices, 36)
	require.NoError(t, f.change(ctx, true, true))
	requireWhole(t, s)

	// The last pod is scheduled while nodes are not ready.
	scheduled := make(chan struct{})
	var once sync.Once
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		once.Do(func() { close(scheduled) })
		return false, nil, nil
	})
	require.NoError(t, f.run(ctx, scheduled))
	requireWhole(t, s)
	require.Equal(t, 4, f.changes, "those back to ready came when there was nothing to schedule any more")
}

func requireWhole(t *testing.T, s *session) {
	t.Helper()
	taints, slices := state(t, s)
	require.Zero(t, taints)
	require.Len(t, slices, 40)
	for _, slice := range slices {
		require.Len(t, slice.Spec.Devices, 2)
	}
}

// state returns the number of nodes that are not ready, and the slices.
func state(t *testing.T, s *session) (notReady int, slices []resourceapi.ResourceSlice) {
	t.Helper()
	nodes, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range nodes.Items {
		require.Len(t, node.Status.Conditions, 1)
		tainted := len(node.Spec.Taints) > 0
		require.Equal(t, tainted, node.Status.Conditions[0].Status != v1.ConditionTrue, "taint and condition say the same")
		if tainted {
			require.Equal(t, []v1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: v1.TaintEffectNoSchedule}}, node.Spec.Taints)
			notReady++
		}
	}
	list, err := s.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return notReady, list.Items
}
