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

	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

const (
	pollInterval = 500 * time.Millisecond
	// podTimeout is far more than any scheduler needs.
	podTimeout = 15 * time.Minute
)

// runPods creates pods with a claim each and waits until all are scheduled.
func runPods(ctx context.Context, client kubernetes.Interface, o options) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	claimTemplate := &resourceapi.ResourceClaimTemplate{}
	if err := readObject(filepath.Join(o.templates, "claimtemplate-one.yaml"), claimTemplate); err != nil {
		return err
	}
	if _, err := client.ResourceV1().ResourceClaimTemplates(workload.Namespace).Create(ctx, claimTemplate, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := &v1.Pod{}
	if err := readObject(filepath.Join(o.templates, "pod.yaml"), pod); err != nil {
		return err
	}
	for range o.pods {
		if _, err := client.CoreV1().Pods(workload.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	scheduled := 0
	err := wait.PollUntilContextTimeout(ctx, pollInterval, podTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		scheduled = 0
		for _, pod := range pods.Items {
			if pod.Spec.NodeName != "" {
				scheduled++
			}
		}
		return scheduled == o.pods, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d pods are scheduled: %w; the scheduler's log is in %s", scheduled, o.pods, err, o.results)
	}
	return nil
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
