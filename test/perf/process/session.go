package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	pollInterval = 200 * time.Millisecond
	// podTimeout is far more than any scheduler needs.
	podTimeout = 15 * time.Minute
	// settleTime is the time for pending events to reach the scheduler and for the scheduler to handle them.
	settleTime = 2 * time.Second
)

// session is a scheduler that runs and is measured.
type session struct {
	client  kubernetes.Interface
	options options
	subject subject
	process *scheduler.Process
	// pod is the template of all measured pods.
	pod *v1.Pod
	// started is the CPU time of the process until it was ready.
	started time.Duration
}

// file returns the path of a file with results of the scheduler.
func (s *session) file(suffix string) string {
	return filepath.Join(s.options.results, s.subject.file()+suffix)
}

// prepareNamespace makes the namespace of the pods and the template of their claims.
func prepareNamespace(ctx context.Context, client kubernetes.Interface, o options) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	claimTemplate := &resourceapi.ResourceClaimTemplate{}
	if err := readObject(filepath.Join(o.templates, "claimtemplate-one.yaml"), claimTemplate); err != nil {
		return err
	}
	_, err := client.ResourceV1().ResourceClaimTemplates(workload.Namespace).Create(ctx, claimTemplate, metav1.CreateOptions{})
	return err
}

// readPod reads the template of all measured pods.
func readPod(o options) (*v1.Pod, error) {
	pod := &v1.Pod{}
	return pod, readObject(filepath.Join(o.templates, "pod.yaml"), pod)
}

// runPods creates pods with a claim each, waits until all are scheduled, and returns
// the time from the first creation until then.
func (s *session) runPods(ctx context.Context, count int) (time.Duration, error) {
	counter, done, err := countScheduled(ctx, s.client, count)
	if err != nil {
		return 0, err
	}
	defer done()
	begin := time.Now()
	if err := cluster.CreatePods(ctx, s.client, workload.Namespace, s.pod, count); err != nil {
		return 0, err
	}
	end, err := s.await(ctx, counter)
	return end.Sub(begin), err
}

// await waits until all pods are scheduled, and returns the time at which the last one was.
func (s *session) await(ctx context.Context, counter *scheduledCounter) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	select {
	case end := <-counter.all:
		return end, nil
	case <-s.process.Done():
		return time.Time{}, fmt.Errorf("%d of %d pods are scheduled: %w", counter.scheduled.Load(), counter.wanted, s.process.Err())
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%d of %d pods are scheduled: %w; the scheduler's log is %s",
			counter.scheduled.Load(), counter.wanted, ctx.Err(), s.process.LogFile())
	}
}

// removePods deletes the pods and their claims, so that the next measurement finds the same
// cluster. It waits until the claims are gone, which happens once no pod uses them.
func (s *session) removePods(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := s.client.CoreV1().Pods(workload.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return err
	}
	claims := s.client.ResourceV1().ResourceClaims(workload.Namespace)
	if err := claims.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return err
	}
	left := 0
	err := wait.PollUntilContextTimeout(ctx, pollInterval, podTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := claims.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left = len(list.Items)
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the claims in namespace %q are gone (there are %d): %w; look at their finalizers",
			workload.Namespace, left, err)
	}
	return sleep(ctx, settleTime)
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
