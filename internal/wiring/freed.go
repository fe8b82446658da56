package wiring

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// missedNode stands for the node of a pod whose binding the watch missed. Queueing hints ask only whether there is one.
const missedNode = "unknown"

// tellFreedRoom has pods tried again after a pod gave up its room on a node, where kube-scheduler itself tells nobody; the others would
// wait for the flush of the queue, after five minutes. The room is freed before: kube-scheduler's own handler of the event may come later.
func tellFreedRoom(ctx context.Context, sched *scheduler.Scheduler, pods cache.SharedInformer) error {
	_, err := informer.Follow(pods, func(e informer.Event[v1.Pod]) {
		if e.Before == nil || e.Before.Spec.NodeName != "" {
			return
		}
		switch {
		case e.Missed:
			sched.SchedulingQueue.DeleteNominatedPodIfExists(e.Before)
			tell(ctx, sched, ended(ctx, sched, e.Before))
		case e.After != nil && leavesNomination(e.Before, e.After):
			if e.After.Spec.NodeName != "" {
				sched.SchedulingQueue.DeleteNominatedPodIfExists(e.Before)
			}
			tell(ctx, sched, e.Before)
		}
	})
	return err
}

// ended removes a pod from kube-scheduler's cache that has ended, and returns it on its node. If the watch was interrupted from before its
// binding until after its end, the cache has the pod as assumed, and kube-scheduler tells the plugins of the end of a pod without a node.
func ended(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) *v1.Pod {
	assumed, err := sched.Cache.GetPod(pod)
	if err != nil { // It was never assumed, or kube-scheduler has heard of its end.
		pod = pod.DeepCopy()
		pod.Spec.NodeName = missedNode
		return pod
	}
	logger := klog.FromContext(ctx)
	if err := sched.Cache.RemoveAssumedPod(logger, assumed); err != nil {
		logger.V(4).Info("Kube-scheduler heard of the pod's binding at the same time", "pod", klog.KObj(assumed), "err", err)
	}
	return assumed
}

// tellMoved has pods tried again after a pod that was about to be bound to a node was bound to another one: kube-scheduler's cache has moved
// it, and kube-scheduler tells nobody.
func tellMoved(sched *scheduler.Scheduler) {
	fail := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		known, err := sched.Cache.GetPod(pod.Pod)
		if err == nil && pod.Pod.Spec.NodeName != "" && known.Spec.NodeName != pod.Pod.Spec.NodeName {
			tell(ctx, sched, pod.Pod)
		}
		fail(ctx, profile, pod, status, nominating, start)
	}
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
