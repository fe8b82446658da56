package wiring

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// missedNode stands for the node of a pod whose binding the watch missed. Queueing hints ask only whether there is one.
const missedNode = "unknown"

// tellFreedRoom has pods tried again after a pod gave up its room on a node, where kube-scheduler itself tells nobody; the others would
// wait for the flush of the queue, after five minutes. The room is freed before: kube-scheduler's own handler of the event may come later.
func tellFreedRoom(ctx context.Context, sched *scheduler.Scheduler, pods cache.SharedInformer) error {
	logger := klog.FromContext(ctx)
	_, err := informer.Follow(pods, func(e informer.Event[v1.Pod]) {
		if e.Before == nil || e.Before.Spec.NodeName != "" {
			return
		}
		assumed, err := sched.Cache.GetPod(e.Before)
		if err != nil {
			assumed = nil // It was never assumed, or kube-scheduler has heard of its end.
		}
		switch {
		case e.Missed:
			sched.SchedulingQueue.DeleteNominatedPodIfExists(e.Before)
			tell(ctx, sched, ended(logger, sched, e.Before, assumed))
		case e.After == nil:
		case assumed != nil && e.After.Spec.NodeName != "" && e.After.Spec.NodeName != assumed.Spec.NodeName:
			if err := sched.Cache.ForgetPod(logger, assumed); err != nil {
				logger.V(4).Info("Kube-scheduler moved the pod that another scheduler bound at the same time", "pod", klog.KObj(assumed), "err", err)
			}
			tell(ctx, sched, assumed)
		case leavesNomination(e.Before, e.After):
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
func ended(logger klog.Logger, sched *scheduler.Scheduler, pod, assumed *v1.Pod) *v1.Pod {
	if assumed == nil {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = missedNode
		return pod
	}
	if err := sched.Cache.RemoveAssumedPod(logger, assumed); err != nil {
		logger.V(4).Info("Kube-scheduler heard of the pod's binding at the same time", "pod", klog.KObj(assumed), "err", err)
	}
	return assumed
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
