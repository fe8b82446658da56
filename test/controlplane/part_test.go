package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// TestParts ends etcd and the API server under a client that goes on afterwards.
func TestParts(t *testing.T) {
	if testing.Short() {
		t.Skip("etcd and the API server end and start again several times; make test-all runs it")
	}
	c, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Stop()) }()
	client := admin(t, c)
	require.ErrorContains(t, c.Etcd().Start(t.Context()), "runs already")
	require.ErrorContains(t, c.APIServer().Start(t.Context()), "runs already")

	endings := []struct {
		name string
		part *Part
		end  func() error
	}{
		{"etcd-killed", c.Etcd(), c.Etcd().Kill},
		{"api-server-killed", c.APIServer(), c.APIServer().Kill},
		{"api-server-stopped", c.APIServer(), c.APIServer().Stop},
	}
	var markers []string
	for _, ending := range endings {
		t.Run(ending.name, func(t *testing.T) {
			require.NoError(t, createMarker(t.Context(), client, ending.name))
			markers = append(markers, ending.name)
			testPart(t, client, ending.part, ending.end, markers)
		})
	}
	require.NoError(t, c.Err(), "an end that was asked for is no failure of the control plane")
	t.Run("forgets history", func(t *testing.T) { testForgetsHistory(t, c, client) })
	t.Run("controllers go on", func(t *testing.T) { newNamespace(t, client, "after-restarts") })

	require.NoError(t, c.APIServer().run.process.Kill()) // stands for a crash
	select {
	case <-c.Done():
	case <-time.After(testTimeout):
		require.Fail(t, "Done should be closed when a part ends unasked")
	}
	require.ErrorContains(t, c.Err(), "kube-apiserver ended")
}

// testPart ends a part and starts it again. The markers are what was written before.
func testPart(t *testing.T, client kubernetes.Interface, part *Part, end func() error, markers []string) {
	require.NoError(t, end())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	require.Error(t, createMarker(ctx, client, "nowhere"), "nobody should be able to write")
	cancel()
	require.NoError(t, end(), "a second time does nothing")
	begin := time.Now()
	require.NoError(t, part.Start(t.Context()))
	started := time.Since(begin)
	eventually(t, "the same client writes and finds all that was written", func(ctx context.Context) error {
		for _, marker := range markers {
			if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, marker, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return createMarker(ctx, client, markers[len(markers)-1]+"-afterwards")
	})
	t.Logf("started after %s, served a client after %s", started.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}

// testForgetsHistory watches from a revision before the last write.
func testForgetsHistory(t *testing.T, c *ControlPlane, client kubernetes.Interface) {
	list, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, createMarker(t.Context(), client, "history"))
	first := func() watch.Event {
		watcher, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return watch.Event{Type: watch.Error, Object: statusOf(err)}
		}
		defer watcher.Stop()
		select {
		case event := <-watcher.ResultChan():
			return event
		case <-time.After(testTimeout):
			return watch.Event{}
		}
	}
	require.Equal(t, watch.Added, first().Type, "as long as there is history, the watch begins in it")
	require.NoError(t, c.Compact(t.Context()))
	require.NoError(t, c.Compact(t.Context()), "to compact twice is no error")
	require.Equal(t, watch.Added, first().Type, "the API server has its own history")

	require.NoError(t, c.ForgetHistory(t.Context()))
	event := first()
	require.Equal(t, watch.Error, event.Type)
	require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
	list, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Contains(t, namesIn(list), "history")
}

// statusOf is the answer of the API server behind an error.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return &metav1.Status{Message: err.Error()}
	}
	answer := status.Status()
	return &answer
}

func namesIn(list *corev1.ConfigMapList) []string {
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

func createMarker(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // A try before went through although its answer was lost.
	}
	return err
}
