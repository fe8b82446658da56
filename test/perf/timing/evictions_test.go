package timing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func boundPod(namespace, name string) *v1.Pod {
	pod := podIn(namespace, name)
	pod.UID, pod.Spec.NodeName = types.UID(name), "node"
	return pod
}

func TestEvictions(t *testing.T) {
	evictions := NewEvictions("measured")
	pending := podIn("measured", "high")
	pending.UID = "high"
	evictions.OnAdd(pending, false)
	count, _ := evictions.Bound()
	require.Zero(t, count, "it is not bound")

	evictions.OnUpdate(pending, boundPod("measured", "high"))
	count, last := evictions.Bound()
	require.EqualValues(t, 1, count)
	require.WithinDuration(t, time.Now(), last, time.Minute)
	evictions.OnUpdate(boundPod("measured", "high"), boundPod("measured", "high"))
	count, again := evictions.Bound()
	require.EqualValues(t, 1, count)
	require.Equal(t, last, again, "a later change of the pod is none of its binding")

	evictions.OnAdd(boundPod("low", "stays"), true)
	require.Zero(t, evictions.Victims())
	going := boundPod("low", "a")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	evictions.OnUpdate(boundPod("low", "a"), going)
	evictions.OnDelete(going)
	require.EqualValues(t, 1, evictions.Victims(), "one pod, first going and then gone")
	evictions.OnDelete(cache.DeletedFinalStateUnknown{Obj: boundPod("low", "b")})
	require.EqualValues(t, 2, evictions.Victims())
	evictions.OnDelete(podIn("low", "never bound"))
	require.EqualValues(t, 2, evictions.Victims())
}
