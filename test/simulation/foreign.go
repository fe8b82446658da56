package simulation

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	// foreign is the theme of histories with a foreign scheduler, and the name of that scheduler.
	foreign = "foreign-scheduler"
	// others is the theme of histories with a second scheduler of this project, and the name of its profile.
	others = "second-scheduler"
	// sharing is the theme of histories in which many pods use the same claims.
	sharing = "shared claims"
	// glance is the maximum age of the foreign scheduler's view of the cluster.
	glance = 3 * time.Second
)

// foreignScheduler takes the first devices that are free in its view, with upstream's allocator. It does not take part in our
// protocol.
type foreignScheduler struct {
	world  *World
	client kubernetes.Interface
	// seen holds the versions of the collections at the last look, tried those at the last attempt for its pods.
	seen, tried [4]int64
	pods        int64
	nodes       []v1.Node
	claims      []resourceapi.ResourceClaim
	slices      []*resourceapi.ResourceSlice
	class       foreignClasses
}

// foreignClasses implements structured.DeviceClassLister.
type foreignClasses []*resourceapi.DeviceClass

func (c foreignClasses) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c foreignClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// Foreign starts the other scheduler.
func (w *World) Foreign() {
	f := &foreignScheduler{world: w, client: kubernetes.NewForConfigOrDie(configOf(w.server.Connect(w.seed+200, Calm), foreign))}
	w.group.Go(func() {
		for pause(w.ctx, glance) == nil {
			f.look(w.ctx)
			if pause(w.ctx, time.Second) == nil { // by now the view is old
				f.schedule(w.ctx)
			}
		}
	})
}

// look lists the nodes, claims, slices and classes again, unless nothing has changed since the last look.
func (f *foreignScheduler) look(ctx context.Context) {
	seen := [4]int64(f.world.server.versions("/v1/nodes", "resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1/deviceclasses"))
	if seen == f.seen {
		return
	}
	f.seen = seen
	all := metav1.ListOptions{}
	f.nodes, f.claims, f.slices, f.class = nil, nil, nil, nil
	if list, err := f.client.CoreV1().Nodes().List(ctx, all); err == nil {
		f.nodes = list.Items
	}
	if list, err := f.client.ResourceV1().ResourceClaims(namespace).List(ctx, all); err == nil {
		f.claims = list.Items
	}
	if list, err := f.client.ResourceV1().ResourceSlices().List(ctx, all); err == nil {
		for i := range list.Items {
			f.slices = append(f.slices, &list.Items[i])
		}
	}
	if list, err := f.client.ResourceV1().DeviceClasses().List(ctx, all); err == nil {
		for i := range list.Items {
			f.class = append(f.class, &list.Items[i])
		}
	}
}

// schedule tries each of its pods once, unless nothing has changed since the last attempt.
func (f *foreignScheduler) schedule(ctx context.Context) {
	version := f.world.server.versions("/v1/pods")[0]
	if version == f.pods && f.seen == f.tried {
		return
	}
	f.pods, f.tried = version, f.seen
	pods, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.SchedulerName == foreign && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			f.place(ctx, pod)
		}
	}
}

func (f *foreignScheduler) known(name string) *resourceapi.ResourceClaim {
	for i := range f.claims {
		if f.claims[i].Name == name {
			return &f.claims[i]
		}
	}
	return nil
}

// place binds a pod to the first node where all of its claims can be allocated.
func (f *foreignScheduler) place(ctx context.Context, pod *v1.Pod) {
	var claims, open []*resourceapi.ResourceClaim
	for name := range resourceclaim.PodClaims(pod) {
		claim := f.known(name)
		if claim == nil || claim.DeletionTimestamp != nil || resourceclaim.IsForPod(pod, claim, false) != nil && metav1.GetControllerOf(claim) != nil {
			return
		}
		claims = append(claims, claim)
		if claim.Status.Allocation == nil {
			open = append(open, claim)
		}
	}
	if len(claims) != len(pod.Spec.ResourceClaims) || len(open) != len(claims) {
		return // It does not touch claims that others have allocated.
	}
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for i := range f.claims {
		if allocation := f.claims[i].Status.Allocation; allocation != nil {
			for i := range allocation.Devices.Results {
				take(state, &allocation.Devices.Results[i])
			}
		}
	}
	allocator, err := structured.NewAllocator(ctx, foreignFeatures, state, f.class, f.slices, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		return
	}
	for i := range f.nodes {
		results, err := allocator.Allocate(ctx, &f.nodes[i], open)
		if err != nil || len(results) != len(open) || f.nodes[i].Spec.Unschedulable {
			continue
		}
		for i, claim := range open {
			if !f.write(ctx, pod, claim, &results[i]) {
				return
			}
		}
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: f.nodes[i].Name}}
		_ = f.client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
		return
	}
}

// foreignFeatures are the features of the foreign scheduler's allocator.
var foreignFeatures = structured.Features{AdminAccess: true, ConsumableCapacity: true, PartitionableDevices: true, PrioritizedList: true}

// take adds an allocated device to the state.
func take(state structured.AllocatedState, r *resourceapi.DeviceRequestAllocationResult) {
	device := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	switch {
	case isAdmin(*r):
	case r.ShareID == nil:
		state.AllocatedDevices.Insert(device)
	default:
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, r.ShareID))
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, r.ConsumedCapacity))
	}
}

// write stores an allocation, unless the claim has changed.
func (f *foreignScheduler) write(ctx context.Context, pod *v1.Pod, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) bool {
	api := f.client.ResourceV1().ResourceClaims(namespace)
	next := claim.DeepCopy()
	next.Finalizers = append(next.Finalizers, resourceapi.Finalizer)
	next, err := api.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return false
	}
	next.Status.Allocation = allocation
	next.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	next, err = api.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err == nil {
		*claim = *next // The view includes the scheduler's own writes.
	}
	return err == nil
}
