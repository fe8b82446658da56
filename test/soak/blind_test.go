package soak

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// blindPrefix is the beginning of the names of the blind user's pods and claims.
	blindPrefix = "blind-"
	// blindPause is the time between two conflicts that it makes.
	blindPause = 2 * time.Second
	// nowhere is the beginning of the names of nodes that do not exist: no container of a pod
	// there ever starts. Each pod has its own, as pods on a node that has been missing for 40
	// seconds are deleted by kube-controller-manager.
	nowhere = "nowhere-"
)

// blind is a user that gives devices which a claim has to another one, without looking, as a
// scheduler might. Nobody yields, so each conflict has to be reported.
type blind struct {
	space   *harness.Space
	reports *reports
	// profile is the scheduler of the pods that come first.
	profile string
	// evicts says that the pod that came later has to be evicted after that.
	evicts bool
	made   atomic.Int64
}

func (b *blind) String() string { return fmt.Sprintf("%d conflicts made blindly", b.made.Load()) }

// run makes one conflict after the other until the context is done.
func (b *blind) run(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i++ {
		// A conflict that has begun is brought to its end.
		if err := b.conflict(b.space.T.Context(), fmt.Sprintf("%s%d", blindPrefix, i)); err != nil {
			return fmt.Errorf("conflict %s%d: %w", blindPrefix, i, err)
		}
		b.made.Add(1)
		pause(ctx, blindPause)
	}
	return nil
}

// conflict makes one, waits until it is reported, and removes it.
func (b *blind) conflict(ctx context.Context, name string) error {
	first, second := name+"-first", name+"-second"
	pod := b.space.Pod(first, builder.Uses(first))
	pod.Spec.SchedulerName = b.profile
	for _, err := range []error{
		cluster.Objects.Create(ctx, b.space.Name, builder.Claim(first, b.space.Want(1)).Obj()),
		cluster.Objects.Create(ctx, b.space.Name, pod),
	} {
		if err != nil {
			return err
		}
	}
	if err := harness.Poll(ctx, patience, func(context.Context) error {
		known, err := b.space.KnownPod(first)
		if err == nil {
			err = b.space.Runs(known)
		}
		return err
	}); err != nil {
		return err
	}
	held, err := cluster.Client.ResourceV1().ResourceClaims(b.space.Name).Get(ctx, first, metav1.GetOptions{})
	if err != nil {
		return err
	}
	copied, err := b.allocateAgain(ctx, second, held.Status.Allocation)
	if err != nil {
		return err
	}
	if err := harness.Poll(ctx, patience, func(context.Context) error { return b.reports.isReported(held.UID, copied) }); err != nil {
		return err
	}
	if b.evicts {
		if err := harness.Poll(ctx, patience, func(context.Context) error { return b.isGone(second) }); err != nil {
			return fmt.Errorf("no container of the pod that came later has started, but it is not evicted: %w", err)
		}
	}
	if _, err := b.space.KnownPod(first); err != nil {
		return fmt.Errorf("the pod that was first: %w", err)
	}
	return b.remove(ctx, first, second)
}

// allocateAgain makes a pod that is bound with a claim that has devices of another one. It
// returns the UID of the claim.
func (b *blind) allocateAgain(ctx context.Context, name string, allocation *resourceapi.AllocationResult) (types.UID, error) {
	pod := builder.Unsaved(b.space.Name, b.space.Pod(name, builder.Uses(name)))
	pod.Spec.SchedulerName, pod.Spec.TerminationGracePeriodSeconds = blindPrefix+"scheduler", new(int64)
	pods, claims := cluster.Client.CoreV1().Pods(b.space.Name), cluster.Client.ResourceV1().ResourceClaims(b.space.Name)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	claim := builder.Unsaved(b.space.Name, builder.Claim(name, b.space.Want(1)).Obj())
	claim.Finalizers = []string{resourceapi.Finalizer}
	if claim, err = claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	claim.Status.Allocation = allocation.DeepCopy()
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	return claim.UID, pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nowhere + b.space.Name + "-" + name},
	}, metav1.CreateOptions{})
}

func (b *blind) isGone(pod string) error {
	if _, err := b.space.KnownPod(pod); !apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s is still there (%v)", pod, err)
	}
	return nil
}

// remove deletes pods and the claims of the same names.
func (b *blind) remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := cluster.Client.CoreV1().Pods(b.space.Name).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := cluster.Client.ResourceV1().ResourceClaims(b.space.Name).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return harness.Poll(ctx, patience, func(context.Context) error {
		for _, name := range names {
			if err := b.isGone(name); err != nil {
				return err
			}
		}
		return nil
	})
}
