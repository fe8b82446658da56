package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister lists the events that may help a pod which this plugin has
// rejected, other than those of claims, slices and taint rules, and devices that become
// free: see requeue.Events and clusterstate.State. Each has a hint that says whether it really may help a given pod.
//
// Hints run for every waiting pod and hold up the scheduling queue, so they only
// use what is in memory and err on the side of waking a pod.
func (pl *Quartermaster) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	event := func(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: resource, ActionType: action}
	}
	nodeChanges := fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable
	if pl.features.EnableDRAOptionalNodeOperations {
		nodeChanges |= fwk.UpdateNodeDeclaredFeature
	}
	events := []fwk.ClusterEventWithHint{
		// The names of generated claims get recorded in the status of the pod.
		{
			Event:          event(fwk.TargetPod, fwk.UpdatePodGeneratedResourceClaim),
			QueueingHintFn: pl.isSchedulableAfterTargetPodUpdate,
		},
		// A class gets created or selects other devices.
		{
			Event:          event(fwk.DeviceClass, fwk.Add|fwk.Update),
			QueueingHintFn: pl.isSchedulableAfterClassChange,
		},
		// A node appears, or comes to match the node selector of an allocation or slice,
		// or a device plugin offers an extended resource there, or its kubelet can leave out
		// operations for devices since it was updated.
		{
			Event:          event(fwk.Node, nodeChanges),
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
	}
	if pl.features.EnableAsyncPreemption {
		// PreEnqueue keeps a pod out of the queue while its victims are being evicted. Of such a pod the queue only
		// takes notice of events that the plugin which keeps it has registered: when a victim is gone, PreEnqueue has to
		// be asked again. Nothing else follows from that event, see above.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          event(fwk.AssignedPod, fwk.Delete),
			QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil },
		})
	}
	return events, nil
}

// hint turns a condition into a hint.
func hint(mayHelp bool) (fwk.QueueingHint, error) {
	if mayHelp {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
