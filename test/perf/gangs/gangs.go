package gangs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// writers is the number of requests at a time.
	writers = 16
	// interval is the time between two polls. Measured times come from events and do not depend on it.
	interval = 10 * time.Millisecond
	// goneWithin is the time limit for the pods of a gang and their claims to disappear.
	goneWithin = 5 * time.Minute
)

// Bound counts the pods of the namespace that were bound since it was empty, and returns the time of the last binding.
type Bound interface {
	Bound() (count int64, last time.Time)
}

// Cluster is a cluster to place gangs in. The namespace holds nothing else.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string
	// Informers are the scheduler's: a gang is gone when they no longer list its pods and claims.
	Informers informers.SharedInformerFactory
	Bound     Bound
}

// Outcome is the result of placing a gang.
type Outcome struct {
	// Bound is the number of pods of the gang that were bound.
	Bound int
	// Created is the time just before the creation of the first pod, LastBound the time at which the last pod was bound.
	Created, LastBound time.Time
}

// Place creates a gang that needs all of its pods, one part after the other, and waits until all pods are bound or the
// patience ends. The end of the patience is no error.
func (c *Cluster) Place(ctx context.Context, name string, parts [][]*v1.Pod, patience time.Duration) (Outcome, error) {
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	before, _ := c.Bound.Bound()
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(total)}
	if _, err := c.Client.SchedulingV1beta1().PodGroups(c.Namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return Outcome{}, fmt.Errorf("create PodGroup %s: %w", name, err)
	}
	outcome := Outcome{Created: time.Now()}
	index := 0
	for _, part := range parts {
		if err := c.create(ctx, name, index, part); err != nil {
			return Outcome{}, err
		}
		index += len(part)
	}
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(context.Context) (bool, error) {
		count, last := c.Bound.Bound()
		outcome.Bound, outcome.LastBound = int(count-before), last
		return outcome.Bound >= total, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return outcome, nil
	}
	return outcome, err
}

// create creates pods of a gang. The numbers in their names start at first.
func (c *Cluster) create(ctx context.Context, gang string, first int, pods []*v1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, template := range pods {
		pod := template.DeepCopy()
		pod.GenerateName, pod.Name = "", fmt.Sprintf("%s-%d", gang, first+i)
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(gang)}
		group.Go(func() error {
			if _, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s of a gang: %w", pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Remove deletes all pods of the namespace and the PodGroup, and waits until the scheduler knows that they and their claims are gone.
func (c *Cluster) Remove(ctx context.Context, name string) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := c.Client.CoreV1().Pods(c.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the pods of gang %s: %w", name, err)
	}
	if err := c.Client.SchedulingV1beta1().PodGroups(c.Namespace).Delete(ctx, name, now); err != nil {
		return fmt.Errorf("delete PodGroup %s: %w", name, err)
	}
	pods := c.Informers.Core().V1().Pods().Lister().Pods(c.Namespace)
	claims := c.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(c.Namespace)
	var left string
	err := wait.PollUntilContextTimeout(ctx, interval, goneWithin, true, func(context.Context) (bool, error) {
		there, err := pods.List(labels.Everything())
		if err != nil {
			return false, err
		}
		held, err := claims.List(labels.Everything())
		left = fmt.Sprintf("%d pods and %d claims are", len(there), len(held))
		return len(there)+len(held) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until gang %s is gone; %s left: %w", name, left, err)
	}
	return nil
}
