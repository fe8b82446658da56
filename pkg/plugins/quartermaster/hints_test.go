package quartermaster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// event is what the scheduling queue hears: objects are nil (untyped) if there is none.
type event struct {
	resource       fwk.EventResource
	action         fwk.ActionType
	oldObj, newObj any
}

// wakes reports whether an event gets a waiting pod, which this plugin rejected,
// out of the unschedulable ones: it must be registered and the hints must agree.
func (f *fixture) wakes(e event, pod *v1.Pod) bool {
	events, err := f.pl.EventsToRegister(f.ctx)
	require.NoError(f.t, err)
	i := slices.IndexFunc(events, func(registered fwk.ClusterEventWithHint) bool {
		return registered.Event.Resource == e.resource && registered.Event.ActionType&e.action != 0
	})
	if i < 0 {
		return false
	}
	logger := klog.FromContext(f.ctx)
	hint, err := events[i].QueueingHintFn(logger, pod, e.oldObj, e.newObj)
	require.NoError(f.t, err)
	return hint == fwk.Queue
}

// object turns a nil pointer into nil, as events have it.
func object[T any](obj *T) any {
	if obj == nil {
		return nil
	}
	return obj
}

// fits reports whether the pod fits on some node now.
func (f *fixture) fits(pod *v1.Pod) bool {
	a, status := f.begin(pod)
	return status.IsSuccess() && len(a.filter().feasible) > 0
}

// TestEventsCoverUpstream: what wakes a pod that the in-tree plugin has rejected has
// to be looked at here as well.
func TestEventsCoverUpstream(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		upstream, err := dynamicresources.New(f.ctx, &config.DynamicResourcesArgs{}, f.pl.handle, feature.Features{EnableDynamicResourceAllocation: true})
		require.NoError(t, err)
		theirs, err := upstream.(fwk.EnqueueExtensions).EventsToRegister(f.ctx)
		require.NoError(t, err)
		require.NotEmpty(t, theirs)
		ours, err := f.pl.EventsToRegister(f.ctx)
		require.NoError(t, err)
		actions := make(map[fwk.EventResource]fwk.ActionType)
		for _, registered := range ours {
			require.NotNil(t, registered.QueueingHintFn, "%s", registered.Event.Resource)
			actions[registered.Event.Resource] |= registered.Event.ActionType
		}
		actions[fwk.ResourceClaim] |= fwk.Add | fwk.Update | fwk.Delete // This is what claimEvents is for,
		actions[fwk.ResourceSlice] |= fwk.Add | fwk.Update | fwk.Delete // and this requeue.Events.FollowSlices.
		for _, registered := range theirs {
			require.Equal(t, registered.Event.ActionType, registered.Event.ActionType&actions[registered.Event.Resource],
				"actions for %s", registered.Event.Resource)
		}
	})
}

// TestUnknownEventsWake: a hint that does not understand an event must not lose it.
func TestUnknownEventsWake(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		f.arrive(gpus("c", 1).Obj(), pod)
		for resource, action := range map[fwk.EventResource]fwk.ActionType{
			fwk.DeviceClass: fwk.Update, fwk.Node: fwk.UpdateNodeLabel, fwk.TargetPod: fwk.UpdatePodGeneratedResourceClaim,
		} {
			e := event{resource: resource, action: action, oldObj: "what", newObj: "is this"}
			require.True(t, f.wakes(e, pod), "%s", resource)
		}
	})
}
