package quartermaster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// event is an event of the scheduling queue: objects are nil (untyped) if there is none.
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

// object turns a nil pointer into an untyped nil, as in events.
func object[T any](obj *T) any {
	if obj == nil {
		return nil
	}
	return obj
}

// tell has a handler of the shared state handle a change as an informer shows it. missed says that the watch has missed the deletion.
func tell[T any](t *testing.T, changed func(informer.Event[T]), before, after *T, missed bool) {
	t.Helper()
	i := &builder.Informer{}
	_, err := informer.Follow(i, changed)
	require.NoError(t, err)
	switch {
	case before == nil:
		i.OnAdd(after, false)
	case after != nil:
		i.OnUpdate(before, after)
	case missed:
		i.OnDelete(cache.DeletedFinalStateUnknown{Key: "of no use", Obj: before})
	default:
		i.OnDelete(before)
	}
}

// fits reports whether the pod fits on some node now.
func (f *fixture) fits(pod *v1.Pod) bool {
	a, status := f.begin(pod)
	return status.IsSuccess() && len(a.filter().feasible) > 0
}

// TestEventsCoverUpstream: an event that wakes a pod rejected by the in-tree plugin must be handled here as well.
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
		actions[fwk.ResourceClaim] |= fwk.Add | fwk.Update | fwk.Delete // Handled by claimEvents,
		actions[fwk.ResourceSlice] |= fwk.Add | fwk.Update | fwk.Delete // and by requeue.Events.FollowSlices.
		for _, registered := range theirs {
			require.Equal(t, registered.Event.ActionType, registered.Event.ActionType&actions[registered.Event.Resource],
				"actions for %s", registered.Event.Resource)
		}
	})
}

// TestNoEventsOfBoundPods: the scheduling queue compares each event that is registered with all pods that PreEnqueue keeps out. It must do
// nothing for them whenever a pod gets a node.
func TestNoEventsOfBoundPods(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		events, err := f.pl.EventsToRegister(f.ctx)
		require.NoError(t, err)
		for _, registered := range events {
			for _, resource := range []fwk.EventResource{fwk.AssignedPod, fwk.UnscheduledPod} {
				require.False(t, kube.Covers(registered.Event, fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add}), "%v", registered.Event)
			}
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

func TestClassHints(t *testing.T) {
	t.Parallel()
	of := func(class string) *resourceapi.ResourceClaim {
		return builder.Claim("c", builder.Request("r", class)).Obj()
	}
	allocated := builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "gpu-0")
	class, labelledClass := builder.Class("gpu"), builder.Class("gpu")
	labelledClass.Labels = map[string]string{"changed": "yes"}
	tests := map[string]struct {
		claim         *resourceapi.ResourceClaim
		pod           *v1.Pod
		before, after *resourceapi.DeviceClass
		want          bool
	}{
		"created":           {claim: of("gpu"), after: class, want: true},
		"another created":   {claim: of("nic"), after: class},
		"selects otherwise": {claim: of("gpu"), before: builder.Class("gpu", "false"), after: class, want: true},
		"another changed":   {claim: of("nic"), before: builder.Class("gpu", "false"), after: class},
		"only labels":       {claim: of("gpu"), before: builder.Class("gpu"), after: labelledClass},
		"in an alternative": {
			claim: builder.Claim("c", builder.FirstAvailable("r", builder.Request("a", "nic"), builder.Request("b", "gpu"))).Obj(),
			after: class, want: true,
		},
		"allocated already":  {claim: allocated, after: class},
		"claim missing":      {claim: of("gpu"), pod: newPod("p", uses("c"), uses("d")), after: class},
		"pod without claims": {claim: of("gpu"), pod: newPod("p"), after: class},
		"deleted":            {claim: of("gpu"), before: class},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.create(builder.Node("n1"))
				slice := gpuSlice(40).Obj()
				f.arrive(test.claim, slice)
				f.pl.state.RefreshSlice(slice.Name)
				e := event{resource: fwk.DeviceClass, action: fwk.Update, oldObj: object(test.before), newObj: object(test.after)}
				if test.before == nil {
					e.action = fwk.Add
				}
				if test.after == nil {
					e.action = fwk.Delete
				} else {
					f.arrive(test.after)
				}
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				require.Equal(t, test.want, f.wakes(e, pod))
			})
		})
	}
}

func TestNodeHints(t *testing.T) {
	t.Parallel()
	unallocated := gpus("c", 1).Obj()
	onN2 := with(gpus("c", 1).Allocated("n2", "gpu-0"), onNode("n2"))
	onLabel := gpus("c", 1).Allocated("zone", "gpu-0")
	onLabel.Status.Allocation.NodeSelector = builder.NodeSelector("zone", "a")
	offers := builder.Node("n1")
	offers.Status.Allocatable = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	bigger := builder.Node("n1")
	bigger.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64")}

	const added, labels, allocatable = fwk.Add, fwk.UpdateNodeLabel, fwk.UpdateNodeAllocatable
	tests := map[string]struct {
		claim         *resourceapi.ResourceClaim
		pod           *v1.Pod
		slice         *resourceapi.ResourceSlice
		action        fwk.ActionType
		before, after *v1.Node
		want          bool
	}{
		"added with devices":               {claim: unallocated, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1"), want: true},
		"added without devices":            {claim: unallocated, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2")},
		"added with other devices":         {claim: unallocated, slice: builder.NodeSlice("n1", builder.Devices("nic-0")...).OfDriver("nic.example.com").Obj(), action: added, after: builder.Node("n1")},
		"added with devices for all":       {claim: unallocated, slice: builder.Slice("s").OnAllNodes().Devices(builder.Devices("gpu-0")...).Obj(), action: added, after: builder.Node("n2"), want: true},
		"gets the label of a slice":        {claim: unallocated, slice: builder.Slice("s").OnLabeled("zone", "a").Devices(builder.Devices("gpu-0")...).Obj(), action: labels, before: builder.Node("n1"), after: builder.Node("n1", "zone", "a"), want: true},
		"loses the label of a slice":       {claim: unallocated, slice: builder.Slice("s").OnLabeled("zone", "a").Devices(builder.Devices("gpu-0")...).Obj(), action: labels, before: builder.Node("n1", "zone", "a"), after: builder.Node("n1")},
		"gets the label of an allocation":  {claim: onLabel, slice: gpuSlice(40).Obj(), action: labels, before: builder.Node("n1"), after: builder.Node("n1", "zone", "a"), want: true},
		"loses the label of an allocation": {claim: onLabel, slice: gpuSlice(40).Obj(), action: labels, before: builder.Node("n1", "zone", "a"), after: builder.Node("n1")},
		"added where the claim is":         {claim: onN2, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2"), want: true},
		"added where the claim is not":     {claim: onN2, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1")},
		"claim is full":                    {claim: with(onN2, reservedFor(users(resourceapi.ResourceClaimReservedForMaxSize)...)), slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2")},
		"more CPUs":                        {claim: unallocated, slice: gpuSlice(40).Obj(), action: allocatable, before: builder.Node("n1"), after: bigger},
		"device plugin appears":            {claim: unallocated, pod: newPod("p", requests("example.com/gpu")), slice: gpuSlice(40).Obj(), action: allocatable, before: builder.Node("n1"), after: offers, want: true},
		"node with device plugin":          {claim: unallocated, pod: newPod("p", requests("example.com/gpu")), slice: gpuSlice(40).Obj(), action: added, after: offers, want: true},
		"claim missing":                    {claim: unallocated, pod: newPod("p", uses("c"), uses("d")), slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1")},
		"taint of the node":                {claim: unallocated, slice: gpuSlice(40).Obj(), action: fwk.UpdateNodeTaint, before: builder.Node("n1"), after: builder.Node("n1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), extendedClass(), test.claim, test.slice)
				f.pl.state.RefreshSlice(test.slice.Name)
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				e := event{resource: fwk.Node, action: test.action, oldObj: object(test.before), newObj: object(test.after)}
				require.Equal(t, test.want, f.wakes(e, pod))
			})
		})
	}
}

// TestExtendedWokenByFreedDevices: a pod waits for devices that other claims hold.
func TestExtendedWokenByFreedDevices(t *testing.T) {
	t.Parallel()
	objects := append(backedNodes(1, "n1"), gpus("held", 1).Allocated("n1", "gpu-0"),
		gpus("nic", 1).Modify(func(claim *resourceapi.ResourceClaim) { claim.Namespace = builder.Namespace }).Allocated("n1-nics", "nic-0"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.settle()
		require.Equal(t, "Filter", f.schedule(pod).phase)
		f.settle()
		require.Empty(t, f.names())
		f.changeClaim("nic", deallocate)
		f.settle()
		require.Empty(t, f.names(), "a device in a pool without devices for it")
		f.changeClaim("held", deallocate)
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}

// TestExtendedWokenByEndOfAnotherPod: its claim goes, and with it the devices.
func TestExtendedWokenByEndOfAnotherPod(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		first, second := gpuPod("first", "1"), gpuPod("second", "1")
		f.create(first)
		f.create(second)
		a := f.bound(first, "n1")
		f.settle()
		require.Equal(t, "Filter", f.schedule(second).phase)
		a.unreserve("n1")
		f.settle()
		require.Equal(t, []string{"default/second"}, f.names(), "and not the pod whose attempt failed")
	})
}

// withoutDevices runs a test with a pod that was rejected because there are no devices for
// the extended resource that it asks for.
func withoutDevices(t *testing.T, test func(t *testing.T, f *fixture, pod *v1.Pod)) {
	objects := []runtime.Object{backing(builder.Class("gpu", `device.driver == "gpu.example.com"`), gpuResource), builder.Node("n1")}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.settle()
		require.Equal(t, "Filter", f.schedule(pod).phase)
		test(t, f, pod)
	})
}

// TestExtendedWokenBySlices: a pod waits for devices that do not exist yet.
func TestExtendedWokenBySlices(t *testing.T) {
	t.Parallel()
	withoutDevices(t, func(t *testing.T, f *fixture, _ *v1.Pod) {
		f.create(builder.NodeSlice("n2", builder.Device("nic-0")).OfDriver("nic.example.com").Obj())
		f.settle()
		require.Empty(t, f.names(), "slice with other devices")
		f.create(builder.NodeSlice("n1", builder.Device("gpu-0")).Obj())
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}

func TestHintsForExtendedResources(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		resource      fwk.EventResource
		action        fwk.ActionType
		before, after runtime.Object
		want          bool
	}{
		"node":                             {resource: fwk.Node, action: fwk.Add, after: builder.Node("n2"), want: true},
		"node with another device plugin":  {resource: fwk.Node, action: fwk.UpdateNodeAllocatable, before: builder.Node("n1"), after: offering("n1", gpuResource, "1"), want: true},
		"its class":                        {resource: fwk.DeviceClass, action: fwk.Update, before: backingClass("gpu", gpuResource), after: backing(builder.Class("gpu", "true"), gpuResource), want: true},
		"its class in nothing but labels":  {resource: fwk.DeviceClass, action: fwk.Update, before: backingClass("gpu", gpuResource), after: backingClass("gpu", gpuResource)},
		"its class stands for another one": {resource: fwk.DeviceClass, action: fwk.Update, before: backingClass("gpu", gpuResource), after: backingClass("gpu", nicResource), want: true},
		"another class for the resource":   {resource: fwk.DeviceClass, action: fwk.Add, after: backingClass("new", gpuResource), want: true},
		"another class":                    {resource: fwk.DeviceClass, action: fwk.Add, after: backingClass("new", nicResource)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withoutDevices(t, func(t *testing.T, f *fixture, pod *v1.Pod) {
				var before any
				if test.before != nil {
					before = test.before
				}
				require.Equal(t, test.want, f.wakes(event{resource: test.resource, action: test.action, oldObj: before, newObj: test.after}, pod))
			})
		})
	}
}
