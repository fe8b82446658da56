package checker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// oraclePatience is the maximum time of upstream's allocator for a pod on a node. Searches that take longer are not judged.
const oraclePatience = 2 * time.Second

// allFeatures are all features of the allocator. The API server does not store fields of a disabled feature gate.
var allFeatures = structured.Features{
	AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	FractionalCapacityRange: true, ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
}

// oracle is upstream's allocator in the state of the cluster, with all else that decides where a pod can go.
type oracle struct {
	*snapshot
	*storage
	classes     classes
	published   []*resourceapi.ResourceSlice // with the taints of rules
	expressions *cel.Cache
	nodes       []*corev1.Node // sorted by name
}

// classes implements structured.DeviceClassLister.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// newOracle lists the objects that waiting pods need and the snapshot does not have.
func newOracle(ctx context.Context, client kubernetes.Interface, s *snapshot, open []*corev1.Pod) (*oracle, error) {
	listed, err := client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list device classes: %w", err)
	}
	rules, err := client.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("check the cluster: list device taint rules: %w", err)
	}
	o := &oracle{snapshot: s, classes: sortedByName(listed.Items), published: s.slices, expressions: cel.NewCache(100, cel.Features{
		EnableConsumableCapacity: true, EnableListTypeAttributes: true,
	})}
	if rules != nil {
		o.published = tainted(s.slices, rules.Items)
	}
	for _, name := range sortedKeys(s.nodeNamed) {
		o.nodes = append(o.nodes, s.nodeNamed[name])
	}
	o.storage, err = listStorage(ctx, client, open)
	return o, err
}

// allocator returns upstream's allocator for a state.
func (o *oracle) allocator(ctx context.Context, state structured.AllocatedState) (structured.Allocator, error) {
	allocator, err := structured.NewAllocator(ctx, allFeatures, state, o.classes, o.published, o.expressions)
	if err != nil {
		return nil, fmt.Errorf("check the cluster: set up upstream's allocator: %w", err)
	}
	return allocator, nil
}

// allocate returns devices on the node for the claims, nil if there are none. After an error, such as an expression that
// fails, the pods have to wait.
func allocate(ctx context.Context, allocator structured.Allocator, node *corev1.Node, open []*resourceapi.ResourceClaim) []resourceapi.AllocationResult {
	if len(open) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, oraclePatience)
	defer cancel()
	results, err := allocator.Allocate(ctx, node, open)
	if err != nil || len(results) != len(open) {
		return nil
	}
	return results
}

// allocated returns the devices of all claims but some, in the form that upstream's allocator wants.
func (s *snapshot) allocated(without func(*resourceapi.ResourceClaim) bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, holders := range s.heldBy {
		for _, h := range holders {
			if without(h.claim) {
				continue
			}
			take(state, h.result)
			// Upstream allocates a device as a whole if it is no longer offered for sharing, even while shares remain.
			if device, published := s.device(deviceOf(h.result)); published && !device.shareable() {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(h.result.Driver, h.result.Pool, h.result.Device))
			}
		}
	}
	return state
}

// take adds an allocated device, or a share of one, to the state.
func take(state structured.AllocatedState, result *resourceapi.DeviceRequestAllocationResult) {
	device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	switch {
	case ptr.Deref(result.AdminAccess, false):
	case result.ShareID == nil:
		state.AllocatedDevices.Insert(device)
	default:
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
	}
}

// tainted returns the slices with the taints of rules.
func tainted(published []*resourceapi.ResourceSlice, rules []resourceapi.DeviceTaintRule) []*resourceapi.ResourceSlice {
	if len(rules) == 0 {
		return published
	}
	var all []*resourceapi.ResourceSlice
	for _, slice := range published {
		slice = slice.DeepCopy()
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			for _, rule := range rules {
				if at := rule.Spec.DeviceSelector; at != nil && agrees(at.Driver, slice.Spec.Driver) && agrees(at.Pool, slice.Spec.Pool.Name) && agrees(at.Device, device.Name) {
					device.Taints = append(device.Taints, rule.Spec.Taint)
				}
			}
		}
		all = append(all, slice)
	}
	return all
}

// agrees reports whether a part of a selector is not set or has the value.
func agrees(selected *string, value string) bool { return ptr.Deref(selected, value) == value }
