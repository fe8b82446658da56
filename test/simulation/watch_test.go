package simulation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestWatchOfSelected: an object that a watch selects no longer is gone for it. Like kube-apiserver, it brings the object as it
// was when it was selected last, with the version of the change.
func TestWatchOfSelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		pods := kubernetes.NewForConfigOrDie(configOf(NewServer().Connect(1, Weather{}), "test")).CoreV1().Pods(namespace)
		created, err := pods.Create(ctx, builder.Pod("p"), metav1.CreateOptions{})
		require.NoError(t, err)
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion, FieldSelector: "status.phase!=Succeeded"})
		require.NoError(t, err)
		pod := created
		for _, phase := range []v1.PodPhase{v1.PodRunning, v1.PodSucceeded} {
			pod, err = pods.Patch(ctx, "p", types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase), metav1.PatchOptions{}, "status")
			require.NoError(t, err)
		}
		for _, kind := range []apiwatch.EventType{apiwatch.Modified, apiwatch.Deleted} {
			event := <-w.ResultChan()
			require.Equal(t, kind, event.Type)
			seen, ok := event.Object.(*v1.Pod)
			require.True(t, ok)
			require.Equal(t, v1.PodRunning, seen.Status.Phase)
			require.Equal(t, kind == apiwatch.Deleted, seen.ResourceVersion == pod.ResourceVersion)
		}
		w.Stop()
		cancel()
	})
}
