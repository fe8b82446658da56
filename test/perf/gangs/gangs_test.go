package gangs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
)

const namespace = "measured"

// newCluster returns a cluster in which pods are bound as soon as they are there, if may says so.
func newCluster(t *testing.T, may func(*v1.Pod) bool) *Cluster {
	t.Helper()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Resource().V1().ResourceClaims().Informer()
	pods := factory.Core().V1().Pods().Informer()
	bound := timing.NewEvictions(namespace)
	_, err := pods.AddEventHandler(bound)
	require.NoError(t, err)
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if pod := object.(*v1.Pod).DeepCopy(); pod.Spec.NodeName == "" && may(pod) {
			pod.Spec.NodeName, pod.UID = "node", types.UID(pod.Name) // The fake client gives no UID.
			if _, err := client.CoreV1().Pods(namespace).Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
				t.Errorf("bind pod %s: %v", pod.Name, err)
			}
		}
	}})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return &Cluster{Client: client, Namespace: namespace, Informers: factory, Bound: bound}
}

func twoParts() [][]*v1.Pod {
	template := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}}
	return [][]*v1.Pod{{template, template}, {template}}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(*v1.Pod) bool { return true })
	for _, name := range []string{"first", "second"} {
		outcome, err := c.Place(t.Context(), name, twoParts(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, 3, outcome.Bound, "those of the gang before do not count")
		require.True(t, outcome.LastBound.After(outcome.Created))

		group, err := c.Client.SchedulingV1beta1().PodGroups(namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.EqualValues(t, 3, group.Spec.SchedulingPolicy.Gang.MinCount)
		for _, pod := range []string{"-0", "-1", "-2"} {
			stored, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name+pod, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, name, *stored.Spec.SchedulingGroup.PodGroupName)
			// The collection is of all in the namespace, which the fake client does not delete.
			require.NoError(t, c.Client.CoreV1().Pods(namespace).Delete(t.Context(), stored.Name, metav1.DeleteOptions{}))
		}
		require.NoError(t, c.Remove(t.Context(), name))
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(pod *v1.Pod) bool { return !strings.HasSuffix(pod.Name, "-2") })
	outcome, err := c.Place(t.Context(), "gang", twoParts(), time.Second/2)
	require.NoError(t, err)
	require.Equal(t, 2, outcome.Bound)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Place(ctx, "other", twoParts(), time.Minute)
	require.Error(t, err, "to be stopped is not the end of the patience")
}
