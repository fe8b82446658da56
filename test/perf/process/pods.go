package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

const (
	pollInterval = 500 * time.Millisecond
	// podTimeout is far more than any scheduler needs.
	podTimeout = 15 * time.Minute
)

// runPods creates pods with a claim each, waits until all are scheduled, and returns
// how long that took from the first creation on.
func runPods(ctx context.Context, client kubernetes.Interface, o options) (time.Duration, error) {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	claimTemplate := &resourceapi.ResourceClaimTemplate{}
	if err := readObject(filepath.Join(o.templates, "claimtemplate-one.yaml"), claimTemplate); err != nil {
		return 0, err
	}
	if _, err := client.ResourceV1().ResourceClaimTemplates(workload.Namespace).Create(ctx, claimTemplate, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	pod := &v1.Pod{}
	if err := readObject(filepath.Join(o.templates, "pod.yaml"), pod); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	counter, err := countScheduled(ctx, client, o.pods)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cluster.CreatePods(ctx, client, workload.Namespace, pod, o.pods); err != nil {
		return 0, err
	}
	select {
	case <-counter.all:
		return time.Since(begin), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d pods are scheduled: %w; the scheduler's log is in %s", counter.scheduled.Load(), o.pods, ctx.Err(), o.results)
	}
}

// scheduledCounter counts pods that were bound to a node.
type scheduledCounter struct {
	scheduled atomic.Int64
	// all is closed when as many as wanted are.
	all chan struct{}
}

// countScheduled watches the pods of the namespace until ctx is done.
func countScheduled(ctx context.Context, client kubernetes.Interface, wanted int) (*scheduledCounter, error) {
	counter := &scheduledCounter{all: make(chan struct{})}
	changed := func(before, after any) {
		was, _ := before.(*v1.Pod)
		is := after.(*v1.Pod)
		if (was == nil || was.Spec.NodeName == "") && is.Spec.NodeName != "" && counter.scheduled.Add(1) == int64(wanted) {
			close(counter.all)
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(workload.Namespace))
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(pod any) { changed(nil, pod) }, UpdateFunc: changed}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return counter, nil
}

// removePods deletes what runPods created, so that the next scheduler finds the same
// cluster. The claims go once nobody uses them.
func removePods(ctx context.Context, client kubernetes.Interface) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := client.CoreV1().Pods(workload.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return err
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, workload.Namespace, now); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, podTimeout, true, func(ctx context.Context) (bool, error) {
		namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + workload.Namespace})
		if err != nil {
			return false, err
		}
		return len(namespaces.Items) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %q and its claims are gone: %w", workload.Namespace, err)
	}
	return nil
}
