package gangplacement

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// queued returns a pod that has been in the queue since a number of seconds after the start; group is the value of its
// label.
func queued(name string, priority int32, seconds int, group string) fwk.QueuedEntityInfo {
	pod := builder.Pod(name)
	pod.Spec.Priority = &priority
	if group != "" {
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: group}
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: params(seconds)}
}

func params(seconds int) framework.QueueingParams {
	at := start.Add(time.Duration(seconds) * time.Second)
	return framework.QueueingParams{Timestamp: at, InitialAttemptTimestamp: &at}
}

// queuedAPIGroup is a PodGroup of scheduling.k8s.io in the queue.
func queuedAPIGroup(name string, priority int32, seconds int) fwk.QueuedEntityInfo {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name}}
	group.Spec.Priority = ptr.To(priority)
	return &framework.QueuedPodGroupInfo{
		PodGroupInfo:   &framework.PodGroupInfo{Namespace: builder.Namespace, Name: name, Type: fwk.PodGroupKeyType, PodGroup: group},
		QueueingParams: params(seconds),
	}
}

func TestLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "").begin()
	sorted := func(queue ...fwk.QueuedEntityInfo) (names []string) {
		slices.SortStableFunc(queue, func(a, b fwk.QueuedEntityInfo) int {
			switch {
			case w.pl.Less(a, b):
				return -1
			case w.pl.Less(b, a):
				return 1
			}
			return 0
		})
		for _, e := range queue {
			names = append(names, entityOf(e, w.pl.gangs).Name[len(builder.Namespace)+1:])
		}
		return names
	}
	queue := []fwk.QueuedEntityInfo{
		queued("late", 0, 30, ""), queued("a-1", 0, 40, "a"), queued("early", 0, 3, ""), queuedAPIGroup("api", 0, 15), queued("urgent", 9, 50, ""),
		queued("b-0", 0, 20, "b"), queued("a-0", 0, 20, "a"), queued("b-1", 0, 10, "b"), queued("b-urgent", 9, 60, "b"),
	}
	for _, e := range queue {
		if q, ok := e.(queuedPod); ok {
			pod := q.GetPodInfo().GetPod()
			pod.CreationTimestamp = metav1.NewTime(map[string]time.Time{"a": start.Add(5 * time.Second), "b": start.Add(5 * time.Second)}[pod.Labels[v1alpha1.PodGroupLabel]])
		}
	}
	failed := queue[6].(*framework.QueuedPodInfo)
	require.Equal(t, []string{"urgent", "early", "a-0", "a-1", "b-1", "b-0", "api", "late"}, sorted(queue...)[1:])
	require.Equal(t, []string{"b-urgent", "urgent"}, sorted(queue...)[:2], "the priority is the pod's own")

	// A pod that has failed is at the end of its gang, which stays where it is.
	failed.Timestamp = start.Add(time.Hour)
	require.Equal(t, []string{"b-urgent", "urgent", "early", "a-1", "a-0", "b-1", "b-0", "api", "late"}, sorted(queue...))
}

// Times of pods have readings of the monotonic clock, those of groups do not.
func TestLessIgnoresTheMonotonicClock(t *testing.T) {
	t.Parallel()
	pod := queued("pod", 0, 0, "").(*framework.QueuedPodInfo)
	pod.Timestamp = time.Now()
	require.Contains(t, pod.Timestamp.String(), "m=")
	require.NotContains(t, entityOf(pod, nil).Time.String(), "m=")
}

// TestLessIsAStrictWeakOrdering compares all pairs and triples of many entities.
func TestLessIsAStrictWeakOrdering(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(3))
	w := newWorld(t, "", "").begin()
	var all []fwk.QueuedEntityInfo
	for i := range 45 {
		priority, seconds := int32(random.Intn(2)), random.Intn(5)
		switch random.Intn(4) {
		case 0:
			all = append(all, queuedAPIGroup([]string{"a", "b", "x"}[random.Intn(3)], priority, seconds))
		case 1:
			all = append(all, queued([]string{"a", "b", "x"}[random.Intn(3)], priority, seconds, "")) // Named like groups.
		default:
			member := queued(fmt.Sprint("pod-", i%7), priority, seconds, []string{"a", "b", "c", "d"}[random.Intn(4)])
			// The members have different creation times: the first one seen counts.
			member.(queuedPod).GetPodInfo().GetPod().CreationTimestamp = metav1.NewTime(start.Add(time.Duration(random.Intn(5)) * time.Second))
			all = append(all, member)
		}
	}
	less := w.pl.Less
	equal := func(a, b fwk.QueuedEntityInfo) bool { return !less(a, b) && !less(b, a) }
	for _, a := range all {
		require.False(t, less(a, a))
		for _, b := range all {
			require.False(t, less(a, b) && less(b, a))
			for _, c := range all {
				if less(a, b) && less(b, c) {
					require.True(t, less(a, c))
				}
				if equal(a, b) && equal(b, c) {
					require.True(t, equal(a, c))
				}
			}
		}
	}
}
