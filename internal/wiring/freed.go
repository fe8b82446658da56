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
	_, err := informer.Follow(pods, func(e informer.Event[v1.Pod]) {
		switch {
		case e.Before == nil || e.Before.Spec.NodeName != "":
		case e.Missed:
			forget(ctx, sched, e.Before)
			ended := e.Before.DeepCopy()
			ended.Spec.NodeName = missedNode
			tell(ctx, sched, ended)
		case e.After != nil && leavesNomination(e.Before, e.After):
			if e.After.Spec.NodeName != "" {
				sched.SchedulingQueue.DeleteNominatedPodIfExists(e.Before)
			}
			tell(ctx, sched, e.Before)
		}
	})
	return err
}

// forget removes a pod from kube-scheduler's cache that has ended. If the watch was interrupted from before its binding until after its end,
// the cache has the pod on its node, and kube-scheduler tells the plugins of the end of a pod without a node.
func forget(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	logger := klog.FromContext(ctx)
	if err := sched.Cache.RemovePod(logger, pod); err != nil {
		logger.V(5).Info("The ended pod is not in kube-scheduler's cache", "pod", klog.KObj(pod), "err", err)
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
