package gangplacement

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// Name is the name of the plugin in configurations.
const Name = "QuartermasterGangs"

// Plugin is safe for concurrent use.
type Plugin struct {
	handle   fwk.Handle
	features kube.Features
	// upstream generates placements by the constraints of the API.
	upstream fwk.PlacementGeneratePlugin
	// state returns Quartermaster's state of devices, nil if no profile has that plugin. Whichever plugin is created
	// first, the state exists once pods are scheduled.
	state func() *cluster.State
	takes takes
	gangs *Gangs
}

var (
	_ fwk.QueueSortPlugin          = &Plugin{}
	_ fwk.PlacementGeneratePlugin  = &Plugin{}
	_ fwk.PlacementScorePlugin     = &Plugin{}
	_ fwk.PlacementScoreExtensions = &Plugin{}
	_ fwk.EnqueueExtensions        = &Plugin{}
)

// New returns the plugin. It can be passed to app.WithPlugin or registered in a frameworkruntime.Registry. It has no
// arguments.
func New(ctx context.Context, configured runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if configured != nil {
		if unknown, ok := configured.(*runtime.Unknown); !ok || len(unknown.Raw) > 0 {
			return nil, fmt.Errorf("plugin %s: it is configured with arguments (pluginConfig) and has none; remove them", Name)
		}
	}
	features := kube.FeaturesFrom(utilfeature.DefaultFeatureGate)
	upstream, err := topologyaware.New(ctx, nil, handle, features)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: make plugin %s: %w", Name, topologyaware.Name, err)
	}
	gangs, err := Follow(handle.SharedInformerFactory().Core().V1().Pods().Informer(), clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	pl := &Plugin{handle: handle, features: features, upstream: upstream, gangs: gangs}
	pl.state = func() *cluster.State { return quartermaster.StateOf(handle.SharedInformerFactory()) }
	return pl, nil
}

// Name implements fwk.Plugin.
func (pl *Plugin) Name() string { return Name }

// EventsToRegister implements fwk.EnqueueExtensions: these events may give a group a domain.
func (pl *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if !pl.features.EnableGenericWorkload {
		return nil, nil // The plugin rejects no pods.
	}
	events := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: sameGroup},
		{Event: fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: ownGroup},
	}
	if pl.features.EnableDynamicResourceAllocation {
		events = append(events, fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: pl.sliceChanged})
	}
	return events, nil
}

// sameGroup wakes the pods of a group after one of its pods is gone: that pod may have kept the group in its domain.
func sameGroup(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	gone, _, err := kube.As[*v1.Pod](oldObject, newObject)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(gone.Namespace == pod.Namespace && apiGroup(gone) != "" && apiGroup(gone) == apiGroup(pod)), nil
}

// ownGroup wakes the pods of a group whose annotations may have changed.
func ownGroup(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	_, group, err := kube.As[*kube.PodGroup](oldObject, newObject)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(group.Namespace == pod.Namespace && group.Name == apiGroup(pod)), nil
}

// sliceChanged adds the slice to the inventory before any pod is tried because of it.
func (pl *Plugin) sliceChanged(_ klog.Logger, _ *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	_, slice, err := kube.As[*resourceapi.ResourceSlice](oldObject, newObject)
	if err != nil {
		return fwk.Queue, err
	}
	if state := pl.state(); state != nil {
		state.RefreshSlice(slice.Name)
	}
	return fwk.Queue, nil
}

// apiGroup returns the name of the PodGroup of scheduling.k8s.io that a pod belongs to, "" if it has none.
func apiGroup(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

func hint(helps bool) fwk.QueueingHint {
	if helps {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
