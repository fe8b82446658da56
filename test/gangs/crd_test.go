package gangs

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/status"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// namespace is where the PodGroups of the tests of the definition are.
const namespace = "default"

var (
	podGroups   = v1alpha1.SchemeGroupVersion.WithResource("podgroups")
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// admin returns clients that may do everything.
func admin(t *testing.T) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(t, err)
	return client, untyped
}

// identity returns a client configuration with the scheduler's own rights, without any for PodGroups until they are
// installed.
func identity(t *testing.T) *rest.Config {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.Secondary, manifests.ApplyOptions{RBACOnly: true}))
	path, err := cluster.ControlPlane.ServiceAccountKubeconfig(t.Context(), manifests.Namespace, manifests.Name)
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	return config
}

// install applies manifests/pod-groups, and has the definition deleted at the end of the test. No other test may run: those of these
// files are not parallel, and come first.
func install(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { uninstall(t) })
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
}

// uninstall deletes the definition, and with it all PodGroups.
func uninstall(t *testing.T) {
	t.Helper()
	_, untyped := admin(t)
	const name = "podgroups.scheduling.x-k8s.io"
	ctx := context.Background() // That of the test is over at its end.
	if err := untyped.Resource(definitions).Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	require.NoError(t, harness.Poll(ctx, harness.Patience, func(ctx context.Context) error {
		_, err := untyped.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("definition %s is still there (%v)", name, err)
	}))
}

// eventually polls until the condition returns nil.
func eventually(t *testing.T, condition func(context.Context) error) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, condition))
}

// object returns a PodGroup that needs that many pods.
func object(name string, minMember int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "PodGroup",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"minMember": minMember},
	}}
}

// create creates a PodGroup, once the server has the resource.
func create(t *testing.T, group *unstructured.Unstructured) *v1alpha1.PodGroup {
	t.Helper()
	_, untyped := admin(t)
	created := &v1alpha1.PodGroup{}
	eventually(t, func(ctx context.Context) error {
		stored, err := untyped.Resource(podGroups).Namespace(namespace).Create(ctx, group, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, created)
	})
	return created
}

// follow has Groups and the controller of their status run until the test ends, as a scheduler that leads has them.
func follow(t *testing.T) *crd.Groups {
	t.Helper()
	config := identity(t)
	groups, err := crd.New(config)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	controller := status.New(client, untyped, groups, new(lease.Lease))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { groups.Run(ctx) })
	running.Go(func() { controller.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return groups
}
