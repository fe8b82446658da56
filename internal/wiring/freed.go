package wiring

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

const (
	// missedNode stands for the node of a pod whose binding the watch missed. Queueing hints ask only whether there is one.
	missedNode = "unknown"
	// forgetWithin limits the wait for kube-scheduler's own handler of the same event, which removes the pod from the cache.
	forgetWithin = time.Second
)

// tellFreedRoom has pods tried again after a pod gave up its room on a node, where kube-scheduler itself frees the room and tells
// nobody; the others would wait for the flush of the queue, after five minutes.
func tellFreedRoom(ctx context.Context, sched *scheduler.Scheduler, pods cache.SharedInformer) error {
	_, err := informer.Follow(pods, func(e informer.Event[v1.Pod]) {
		switch {
		case e.Before == nil || e.Before.Spec.NodeName != "":
		case e.Missed:
			forgotten(ctx, sched, e.Before)
			ended := e.Before.DeepCopy()
			ended.Spec.NodeName = missedNode
			tell(ctx, sched, ended)
		case e.After != nil && leavesNomination(e.Before, e.After):
			tell(ctx, sched, e.Before)
		}
	})
	return err
}

// forgotten waits until kube-scheduler's cache has no pod any more that has ended. The watch was interrupted from before its binding
// until after its end: the cache has the pod on its node, but kube-scheduler tells the plugins of the end of a pod without a node.
func forgotten(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	_ = wait.PollUntilContextTimeout(ctx, time.Millisecond, forgetWithin, true, func(context.Context) (bool, error) {
		_, err := sched.Cache.GetPod(pod)
		return err != nil, nil // The cache's only error is that it does not have the pod.
	})
}

// leavesNomination reports whether a pod was nominated for one node and is bound to another one, or about to be. Kube-scheduler looks
// at the nominations of pods only that it has not assumed.
func leavesNomination(before, after *v1.Pod) bool {
	was, is := before.Status.NominatedNodeName, after.Status.NominatedNodeName
	if after.Spec.NodeName != "" {
		is = after.Spec.NodeName
	}
	return was != "" && is != "" && was != is
}

func tell(ctx context.Context, sched *scheduler.Scheduler, freed *v1.Pod) {
	sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.FromContext(ctx), framework.EventAssignedPodDelete, freed, nil, nil)
}
