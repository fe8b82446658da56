package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
)

// limitName is the name of limit in the scheduler's configuration.
const limitName = "WritesOnly"

// limitPlugin is the most that a plugin of this framework can reach: it decides nothing, and makes the writes.
var limitPlugin = subject{label: "limit", name: limitName, factory: newLimit, alone: true}

// limit takes the next node in turn for each pod, and the next device of that node by number. It makes the writes that a pod with a
// claim takes: the claim's finalizer, its allocation with the reservation, and the binding, by DefaultBinder. It is right as long as no more
// pods come than there are devices, and nobody else allocates any.
type limit struct {
	handle fwk.Handle
	pods   atomic.Int64
}

// newLimit implements frameworkruntime.PluginFactory.
func newLimit(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer() // It starts with the others.
	return &limit{handle: handle}, nil
}

// limitPoints are the extension points of limit that the scheduler calls, beside PrioritySort and DefaultBinder.
func limitPoints() map[string]any {
	enabled := func(names ...string) map[string]any {
		var plugins []map[string]any
		for _, name := range names {
			plugins = append(plugins, map[string]any{"name": name})
		}
		return map[string]any{"enabled": plugins}
	}
	return map[string]any{
		"multiPoint": map[string]any{"disabled": []map[string]any{{"name": "*"}}},
		"queueSort":  enabled(queuesort.Name), "bind": enabled(defaultbinder.Name),
		"preEnqueue": enabled(limitName), "preFilter": enabled(limitName), "reserve": enabled(limitName), "preBind": enabled(limitName),
	}
}

// place is the state of a cycle: the number of the device on its node.
type place struct{ device int64 }

// Clone implements fwk.StateData.
func (p place) Clone() fwk.StateData { return p }

func (l *limit) Name() string { return limitName }

// PreEnqueue keeps pods out whose claims do not exist yet.
func (l *limit) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if _, err := l.claimOf(pod); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions.
func (l *limit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodGeneratedResourceClaim}},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add}}, // The informers are not in step.
	}, nil
}

// PreFilter takes the next device.
func (l *limit) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	number, count := l.pods.Add(1)-1, int64(len(nodes))
	state.Write(limitName, place{number / count})
	return &fwk.PreFilterResult{NodeNames: sets.New(nodes[number%count].Node().Name)}, nil
}

// PreBind makes the writes.
func (l *limit) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if err := l.write(ctx, state, pod, node); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

func (l *limit) write(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) error {
	chosen, err := state.Read(limitName)
	if err != nil {
		return err
	}
	stored, err := l.claimOf(pod)
	if err != nil {
		return err
	}
	claim, claims := stored.DeepCopy(), l.handle.ClientSet().ResourceV1().ResourceClaims(pod.Namespace)
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}},
		}}}},
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: claim.Spec.Devices.Requests[0].Name, Driver: "gpu.example.com", Pool: node, Device: fmt.Sprintf("gpu-%d", chosen.(place).device),
		}}},
	}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// claimOf returns the claim of a pod with one, from the informer.
func (l *limit) claimOf(pod *v1.Pod) (*resourceapi.ResourceClaim, error) {
	if len(pod.Spec.ResourceClaims) != 1 {
		return nil, errors.New("the pod has not one claim")
	}
	name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[0])
	if err != nil {
		return nil, err
	}
	return l.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Lister().ResourceClaims(pod.Namespace).Get(*name)
}

// What follows is never called, or says nothing: the wrapper that takes the times wants the interfaces of a plugin for devices.

func (l *limit) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

func (l *limit) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (l *limit) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (l *limit) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, nil
}

func (l *limit) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (l *limit) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (l *limit) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (l *limit) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func (l *limit) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}
