package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Events lists the events that may help a rejected pod, except for those of claims, slices, taint rules and freed
// devices: see (*shared).follow. The hint of each event decides whether it may help a given pod.
func (h *Hints) Events(features kube.Features) []fwk.ClusterEventWithHint {
	event := func(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: resource, ActionType: action}
	}
	nodeChanges := fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable
	if features.EnableDRAOptionalNodeOperations {
		nodeChanges |= fwk.UpdateNodeDeclaredFeature
	}
	events := []fwk.ClusterEventWithHint{
		// The names of generated claims are recorded in the status of the pod.
		{
			Event:          event(fwk.TargetPod, fwk.UpdatePodGeneratedResourceClaim),
			QueueingHintFn: h.afterTargetPodUpdate,
		},
		// A class is created or selects other devices.
		{
			Event:          event(fwk.DeviceClass, fwk.Add|fwk.Update),
			QueueingHintFn: h.afterClassChange,
		},
		// A node appears, or comes to match the node selector of an allocation or slice; or a device plugin offers an
		// extended resource there; or its upgraded kubelet declares that it can leave out operations for devices.
		{
			Event:          event(fwk.Node, nodeChanges),
			QueueingHintFn: h.afterNodeChange,
		},
	}
	if features.EnableDRANodeAllocatableResources {
		// A pod leaves its node, or shrinks there. Or it comes and takes devices: the node may have room for the next ones.
		events = append(events, fwk.ClusterEventWithHint{
			Event: event(fwk.AssignedPod, fwk.Add|fwk.Delete|fwk.UpdatePodScaleDown),
			QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
				return hint(!comesWithoutDevices(before, after) && h.lacksRoom(pod))
			},
		})
	}
	if features.EnableAsyncPreemption {
		// PreEnqueue keeps a pod out of the queue while its victims are being evicted. For such a pod the queue
		// considers only events that the rejecting plugin has registered. When a victim is gone, the queue must call
		// PreEnqueue again. The hint is QueueSkip, because freed devices wake pods otherwise; see above.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          event(fwk.AssignedPod, fwk.Delete),
			QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil },
		})
	}
	return events
}

// EventsToRegister lists the events that may help a pod that this plugin has rejected, except for those that
// (*shared).follow handles, and adds the events that other plugins have registered, for pods of gangs.
func (pl *Quartermaster) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	hints := &Hints{
		Needs: &pl.needs, Waiting: pl.events, Solver: pl.solver, Inventory: pl.state.Inventory,
		Rules: pl.rules(nil, nil),
	}
	others, err := pl.otherHints(ctx)
	return append(hints.Events(pl.features), others...), err
}

// comesWithoutDevices reports whether the event says that a pod was bound that has no devices.
func comesWithoutDevices(before, after any) bool {
	pod, is := after.(*v1.Pod)
	return before == nil && is && len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil
}
