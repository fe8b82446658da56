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

// oraclePatience is how long upstream's allocator may search for a pod on a node. What takes longer is not judged.
const oraclePatience = 2 * time.Second

// allFeatures are all of the allocator's. The API server does not store what a gate that is off needs.
var allFeatures = structured.Features{
	AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	FractionalCapacityRange: true, ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
}

// oracle is upstream's allocator in the state of the cluster.
type oracle struct{ structured.Allocator }

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

// newOracle lists what the snapshot does not have.
func newOracle(ctx context.Context, client kubernetes.Interface, s *snapshot) (*oracle, error) {
	listed, err := client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list device classes: %w", err)
	}
	rules, err := client.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("check the cluster: list device taint rules: %w", err)
	}
	published := s.slices
	if rules != nil {
		published = tainted(published, rules.Items)
	}
	allocator, err := structured.NewAllocator(ctx, allFeatures, s.allocated(), classes(sortedByName(listed.Items)), published, cel.NewCache(100, cel.Features{
		EnableConsumableCapacity: true, EnableListTypeAttributes: true,
	}))
	if err != nil {
		return nil, fmt.Errorf("check the cluster: set up upstream's allocator: %w", err)
	}
	return &oracle{allocator}, nil
}

// allocates reports whether there are devices on the node for those of the claims that have none. If that is an error, such
// as an expression that fails, the pod has to wait.
func (o *oracle) allocates(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) bool {
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			open = append(open, claim)
		}
	}
	if len(open) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, oraclePatience)
	defer cancel()
	results, err := o.Allocate(ctx, node, open)
	return err == nil && len(results) == len(open)
}

// allocated is what claims hold, as upstream's allocator wants it.
func (s *snapshot) allocated() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for id, holders := range s.heldBy {
		device := structured.MakeDeviceID(id.pool.driver, id.pool.name, id.name)
		for _, h := range holders {
			if h.result.ShareID == nil {
				state.AllocatedDevices.Insert(device)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, h.result.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, h.result.ConsumedCapacity))
		}
	}
	return state
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
