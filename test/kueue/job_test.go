package kueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// queueLabel names the queue of a Job or a pod.
	queueLabel = "kueue.x-k8s.io/queue-name"
	// endsAfter is when KWOK ends the pod of a Job.
	endsAfter = "pod-complete.stage.kwok.x-k8s.io/delay"
)

// errNoWorkload means that Kueue has not seen a Job yet.
var errNoWorkload = errors.New("there is no workload for it")

// job creates a Job in the queue as docs/neighbours.md says, each of whose pods uses a claim template for one device, unless edits say otherwise.
func (s *space) job(name string, pods int32, edits ...func(*batchv1.Job)) {
	s.T.Helper()
	job := builder.Job(name, pods)
	var documented batchv1.Job
	harness.Documented(s.T, "With Kueue", &documented)
	require.Equal(s.T, builder.SchedulerName, documented.Spec.Template.Spec.SchedulerName)
	job.Labels = documented.Labels
	job.Spec.Template.Annotations = map[string]string{endsAfter: "24h"}
	job.Spec.Template.Spec.SchedulerName = s.Profile
	usingTemplate(template)(job)
	for _, edit := range edits {
		edit(job)
	}
	s.Create(job)
}

// usingTemplate has the pods of a Job use a claim template, in place of any other claim.
func usingTemplate(name string) func(*batchv1.Job) { return using(builder.FromTemplate(name)...) }

// using has the pods of a Job use claims, in place of any other.
func using(claims ...corev1.PodResourceClaim) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		pod := &corev1.Pod{Spec: job.Spec.Template.Spec}
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
		builder.Using(claims...)(pod)
		job.Spec.Template.Spec = pod.Spec
	}
}

// podsOf returns the pods of a Job or JobSet that have neither ended nor been deleted, in the order of their names.
func (s *space) podsOf(job string) (pods []*corev1.Pod) {
	s.T.Helper()
	for _, pod := range s.Pods() {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		owned := pod.Labels[batchv1.JobNameLabel] == job || pod.Labels[jobSetLabel] == job
		if owned && pod.DeletionTimestamp == nil && !ended {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// awaitJob polls until a condition of the pods of a Job is fulfilled, and returns their names.
func (s *space) awaitJob(what, job string, pods int, each func(*corev1.Pod) error) (names []string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have %d pods of job %s %s", pods, job, what), func(ctx context.Context) error {
		names = nil
		for _, pod := range s.podsOf(job) {
			if err := each(pod); err != nil {
				return err
			}
			names = append(names, pod.Name)
		}
		if len(names) != pods {
			return errors.Join(fmt.Errorf("it has %d", len(names)), s.tellWorkload(ctx, job))
		}
		return nil
	})
	return names
}

// runs waits until all pods of a Job run with their devices, and returns their names.
func (s *space) runs(job string, pods int) []string {
	s.T.Helper()
	return s.awaitJob("run", job, pods, s.Runs)
}

// waits waits until no pod of a Job is bound and each says why, and returns their names.
func (s *space) waits(job string, pods int, parts ...string) []string {
	s.T.Helper()
	return s.awaitJob("wait", job, pods, func(pod *corev1.Pod) error { return harness.Waits(pod, parts...) })
}

// suspended waits until a Job is suspended and no pod of it is left.
func (s *space) suspended(name string) {
	s.T.Helper()
	s.Eventually("suspend job "+name, func(ctx context.Context) error {
		job, err := cluster.Client.BatchV1().Jobs(s.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if left := len(s.podsOf(name)); !ptr.Deref(job.Spec.Suspend, false) || left > 0 {
			return errors.Join(fmt.Errorf("it has %d pods", left), s.tellWorkload(ctx, name))
		}
		return nil
	})
}

// finish has all pods of a Job succeed, and waits until the Job has.
func (s *space) finish(name string) {
	s.T.Helper()
	s.Eventually("finish job "+name, func(ctx context.Context) error {
		job, err := cluster.Client.BatchV1().Jobs(s.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil || job.Status.CompletionTime != nil {
			return err
		}
		errs := []error{fmt.Errorf("%d pods succeeded, %d failed", job.Status.Succeeded, job.Status.Failed)}
		for _, pod := range s.podsOf(name) {
			if pod.Spec.NodeName != "" {
				errs = append(errs, s.succeed(ctx, pod.Name))
			}
		}
		return errors.Join(errs...)
	})
}

// succeed ends a pod.
func (s *space) succeed(ctx context.Context, pod string) error {
	_, err := cluster.Client.CoreV1().Pods(s.Name).Patch(ctx, pod, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`),
		metav1.PatchOptions{}, "status")
	return err
}

// workload returns Kueue's workload of a Job or a group of pods.
func (s *space) workload(ctx context.Context, owner string) (*unstructured.Unstructured, error) {
	all, err := cluster.Resources(s.T, kueueAPI.WithKind("Workload"), s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		found := &all.Items[i]
		owns := func(reference metav1.OwnerReference) bool { return reference.Name == owner }
		if found.GetName() == owner || slices.ContainsFunc(found.GetOwnerReferences(), owns) {
			return found, nil
		}
	}
	return nil, errNoWorkload
}

// tellWorkload returns what Kueue says about a Job, as an error.
func (s *space) tellWorkload(ctx context.Context, owner string) error {
	found, err := s.workload(ctx, owner)
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	return fmt.Errorf("workload %s: %v", found.GetName(), conditions)
}

// says waits until a condition of the workload of a Job or a group has a status and a reason, and a message with some parts.
func (s *space) says(owner, kind, status, reason string, parts ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have the workload of %s say %s=%s because of %s: %q", owner, kind, status, reason, parts), func(ctx context.Context) error {
		found, err := s.workload(ctx, owner)
		if err != nil {
			return err
		}
		gotStatus, gotReason, message := harness.Condition(found, kind)
		if gotStatus != status || gotReason != reason || containsAll(message, parts) != "" {
			return s.tellWorkload(ctx, owner)
		}
		return nil
	})
}

// patchWorkload merges a JSON text into the workload of a Job.
func (s *space) patchWorkload(owner, text string) {
	s.T.Helper()
	found, err := s.workload(s.T.Context(), owner)
	require.NoError(s.T, err)
	patch(s.T, "Workload", s.Name, found.GetName(), text)
}
