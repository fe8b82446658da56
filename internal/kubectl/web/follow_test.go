package web

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// cluster is a server with the objects.
func cluster() *fake.Clientset {
	o := objects()
	all := []runtime.Object{o.Classes[0], o.Nodes[0], o.Nodes[1], o.Slices[0], o.Slices[1], o.Claims[0], o.Claims[1], o.Pods[0]}
	return fake.NewClientset(all...)
}

// followed is a map that follows the server until the test ends.
func followedMap(t *testing.T, client *fake.Clientset, namespace string) *Map {
	t.Helper()
	m := NewMap("a server")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Follow(ctx, client, namespace, m) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool { return m.State().Version > 0 }, 3*time.Minute, 10*time.Millisecond)
	return m
}

// until waits until the devices of the first node are in some states.
func until(t *testing.T, m *Map, states string) {
	t.Helper()
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		all := tiles(try, m.State().Tiles)
		require.NotEmpty(try, all)
		require.Equal(try, states, all[0].States)
	}, 3*time.Minute, 10*time.Millisecond, "%s", m.State().Tiles)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	client := cluster()
	m := followedMap(t, client, "default")
	until(t, m, "afff")
	require.Empty(t, m.State().Meta.Problems)
	require.Len(t, m.State().Meta.Waiting, 1)
	_, err := client.ResourceV1().ResourceClaims("default").Create(context.Background(), b.Claim("more", b.Request("gpu", b.Driver)).Allocated("a", "gpu-3"), metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, m, "affa")
	require.NoError(t, client.ResourceV1().ResourceClaims("default").Delete(context.Background(), "held", metav1.DeleteOptions{}))
	until(t, m, "fffa")
	for _, action := range client.Actions() {
		require.Contains(t, []string{"get", "list", "watch", "create", "delete"}, action.GetVerb())
	}
}

// forbid takes rights away: to list a resource in all namespaces, or also in each one.
func forbid(client *fake.Clientset, resource string, everywhere bool) {
	client.PrependReactor("list", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "" || everywhere {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right"))
		}
		return false, nil, nil
	})
}

func TestFollowWithFewRights(t *testing.T) {
	t.Parallel()
	client := cluster()
	forbid(client, "resourceclaims", false)
	forbid(client, "pods", true)
	m := followedMap(t, client, "default")
	until(t, m, "a???")
	require.Equal(t, []string{
		"resourceclaims.resource.k8s.io could not be read: the right to list resourceclaims.resource.k8s.io in all namespaces is missing; only those of namespace default are known",
		"pods could not be read: the right to list pods is missing",
	}, m.State().Meta.Problems)
}

// An unreachable server is an error at once, instead of an empty page.
func TestFollowNothing(t *testing.T) {
	t.Parallel()
	client := cluster()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	require.ErrorContains(t, Follow(context.Background(), client, "", NewMap("x")), "read the nodes of the cluster: connection refused")
}

// What is not shown is not kept, and stays with its owner.
func TestTrim(t *testing.T) {
	t.Parallel()
	pod := b.Pod("p", b.Container("main", "cpu", "1"))
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
	trimmed, err := trim(pod)
	require.NoError(t, err)
	require.Empty(t, trimmed.(*v1.Pod).Spec.Containers[0].Env)
	require.NotEmpty(t, trimmed.(*v1.Pod).Spec.Containers[0].Resources.Requests)
}
