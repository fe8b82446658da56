package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestEndOf: what pods say about their end.
func TestEndOf(t *testing.T) {
	t.Parallel()
	now := epoch.Add(10 * time.Minute) // The pods run since epoch.
	expects := func(d string) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Annotations = map[string]string{ExpectedRunTimeAnnotation: d} }
	}
	for name, test := range map[string]struct {
		deadline time.Duration
		edits    []func(*v1.Pod)
		usual    time.Duration
		want     End
	}{
		"nothing":            {want: End{Unknown, epoch}},
		"deadline":           {deadline: 20 * time.Minute, want: End{Known, epoch.Add(20 * time.Minute)}},
		"past":               {deadline: 5 * time.Minute, want: End{Known, now}},
		"far":                {deadline: 2 * time.Hour, want: End{Distant, epoch.Add(2 * time.Hour)}},
		"annotation":         {edits: []func(*v1.Pod){expects("30m")}, want: End{Known, epoch.Add(30 * time.Minute)}},
		"annotation, past":   {edits: []func(*v1.Pod){expects("10m")}, want: End{Unknown, epoch}},
		"annotation, wrong":  {edits: []func(*v1.Pod){expects("soon")}, want: End{Unknown, epoch}},
		"annotation, none":   {edits: []func(*v1.Pod){expects("-1m")}, want: End{Unknown, epoch}},
		"sooner annotation":  {deadline: time.Hour, edits: []func(*v1.Pod){expects("30m")}, want: End{Known, epoch.Add(30 * time.Minute)}},
		"sooner deadline":    {deadline: 20 * time.Minute, edits: []func(*v1.Pod){expects("30m")}, want: End{Known, epoch.Add(20 * time.Minute)}},
		"deadline, estimate": {deadline: 20 * time.Minute, edits: []func(*v1.Pod){expects("1m")}, want: End{Known, epoch.Add(20 * time.Minute)}},
		"usual":              {usual: 30 * time.Minute, want: End{Known, epoch.Add(30 * time.Minute)}},
		"usual, past":        {usual: 10 * time.Minute, want: End{Unknown, epoch}},
		"usual, annotation":  {usual: time.Hour, edits: []func(*v1.Pod){expects("30m")}, want: End{Known, epoch.Add(30 * time.Minute)}},
		"usual, deadline":    {usual: time.Hour, deadline: 20 * time.Minute, want: End{Known, epoch.Add(20 * time.Minute)}},
		"serves":             {edits: []func(*v1.Pod){func(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyAlways }}, want: End{Serving, epoch}},
		"serves, deadline":   {deadline: 20 * time.Minute, edits: []func(*v1.Pod){func(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyAlways }}, want: End{Known, epoch.Add(20 * time.Minute)}},
		"has ended":          {edits: []func(*v1.Pod){func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }}, want: End{Known, now}},
		"is deleted": {edits: []func(*v1.Pod){func(pod *v1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Second)}
		}}, want: End{Known, now.Add(time.Second)}},
		"not started": {deadline: 20 * time.Minute, edits: []func(*v1.Pod){func(pod *v1.Pod) {
			pod.Status.StartTime = nil
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}}}
		}}, want: End{Known, now.Add(20 * time.Minute)}},
		"waited, and is being bound": {deadline: 20 * time.Minute, edits: []func(*v1.Pod){func(pod *v1.Pod) {
			pod.Status.StartTime, pod.Spec.NodeName = nil, ""
		}}, want: End{Known, now.Add(20 * time.Minute)}},
		"not bound": {edits: []func(*v1.Pod){func(pod *v1.Pod) {
			pod.Status.StartTime, pod.CreationTimestamp = nil, metav1.Time{Time: now}
		}}, want: End{Unknown, now}},
	} {
		pod := newJob("a", 1, 0, test.deadline).Pod
		pod.Status.StartTime = &metav1.Time{Time: epoch}
		for _, edit := range test.edits {
			edit(pod)
		}
		require.Equal(t, test.want, endOf(pod, test.usual, now), name)
	}
}

// TestOrderOfEnds: known ends come first, then those of pods that have run for long, then distant ends and services.
func TestOrderOfEnds(t *testing.T) {
	t.Parallel()
	order := []End{
		{Known, epoch}, {Known, epoch.Add(1)}, {Unknown, epoch.Add(-1)}, {Unknown, epoch}, {Distant, epoch.Add(time.Hour)}, {Serving, epoch}, {Never, epoch},
	}
	for i := range order {
		for k := range order {
			require.Equal(t, i < k, order[i].Compare(order[k]) < 0)
		}
	}
}

// TestWaitsSince: a pod waits once a scheduler has said so; gates do not count.
func TestWaitsSince(t *testing.T) {
	t.Parallel()
	pod := waitingPod("a", epoch)
	since, waits := WaitsSince(pod)
	require.True(t, waits)
	require.Equal(t, epoch, since)
	pod.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
	_, waits = WaitsSince(pod)
	require.False(t, waits)
	_, waits = WaitsSince(&v1.Pod{})
	require.False(t, waits)
}

// TestHistoryOfJobs: the longest run time counts of the pods of a Job that have succeeded and are still there.
func TestHistoryOfJobs(t *testing.T) {
	t.Parallel()
	now := epoch.Add(10 * time.Minute)
	of := func(name, job string, edits ...func(*v1.Pod)) *v1.Pod {
		pod := newJob(name, 1, 0, 0).Pod
		pod.Status.StartTime = &metav1.Time{Time: epoch}
		if job != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, UID: types.UID(job), Controller: ptr.To(true)}}
		}
		for _, edit := range edits {
			edit(pod)
		}
		return pod
	}
	ended := func(phase v1.PodPhase, took ...time.Duration) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Status.Phase = phase
			for _, d := range took {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
					State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: epoch.Add(d)}}},
				})
			}
		}
	}
	r := NewRegistry()
	runs := of("runs", "train")
	require.Equal(t, End{Unknown, epoch}, r.EndOf(runs, now))
	short := of("short", "train", ended(v1.PodSucceeded, time.Minute, 20*time.Minute))
	long := of("long", "train", ended(v1.PodSucceeded, 30*time.Minute))
	for _, pod := range []*v1.Pod{
		short, long, of("failed", "train", ended(v1.PodFailed, 50*time.Minute)), of("silent", "train", ended(v1.PodSucceeded)),
		of("other", "serve", ended(v1.PodSucceeded, 40*time.Minute)), of("single", "", ended(v1.PodSucceeded, 40*time.Minute)),
	} {
		r.PodChanged(nil, pod)
	}
	require.Equal(t, End{Known, epoch.Add(30 * time.Minute)}, r.EndOf(runs, now))
	require.Equal(t, End{Unknown, epoch}, r.EndOf(of("alone", ""), now), "what has no controller has no history")
	r.PodChanged(long, nil)
	require.Equal(t, End{Known, epoch.Add(20 * time.Minute)}, r.EndOf(runs, now))
	r.PodChanged(short, of("short", "train", func(pod *v1.Pod) { pod.UID = "again" }))
	require.Equal(t, End{Unknown, epoch}, r.EndOf(runs, now))
	require.Len(t, r.history, 1, "nothing is kept of pods that are gone")
}
