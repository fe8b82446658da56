package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// OccupiedNamespace is the namespace of the claims that hold devices for no pod.
const OccupiedNamespace = "occupied"

const (
	deviceClass = "device"
	request     = "devices"
	// seed is arbitrary, but the same in every run.
	seed = 1
)

// Occupying makes claims that each hold perClaim devices of one node. A node has at most
// perNode of these claims; there is no limit if perNode is 0. Occupying chooses nodes at
// random, with a fixed seed so that every run finds the same cluster, and takes the devices
// of a node in their order, as a scheduler would.
func Occupying(published []*resourceapi.ResourceSlice, claims, perClaim, perNode int) ([]*resourceapi.ResourceClaim, error) {
	free := devicesByNode(published)
	if perNode > 0 {
		for i := range free {
			free[i].devices = free[i].devices[:min(len(free[i].devices), perNode*perClaim)]
		}
	}
	free = slices.DeleteFunc(free, func(node nodeDevices) bool { return len(node.devices) < perClaim })
	order := rand.New(rand.NewPCG(seed, seed))
	var result []*resourceapi.ResourceClaim
	for index := range claims {
		if len(free) == 0 {
			return nil, fmt.Errorf("occupy devices: %d claims with %d devices each are asked for, there is room for %d; publish more devices or ask for fewer claims",
				claims, perClaim, index)
		}
		at := order.IntN(len(free))
		node := &free[at]
		result = append(result, occupyingClaim(index, node.name, node.devices[:perClaim]))
		node.devices = node.devices[perClaim:]
		if len(node.devices) < perClaim {
			free[at] = free[len(free)-1]
			free = free[:len(free)-1]
		}
	}
	return result, nil
}

// nodeDevices are devices of a node that nobody holds, as allocation results.
type nodeDevices struct {
	name    string
	devices []resourceapi.DeviceRequestAllocationResult
}

func devicesByNode(published []*resourceapi.ResourceSlice) []nodeDevices {
	var nodes []nodeDevices
	for _, slice := range published {
		if slice.Spec.NodeName == nil || len(slice.Spec.Devices) == 0 {
			continue
		}
		name := *slice.Spec.NodeName
		if len(nodes) == 0 || nodes[len(nodes)-1].name != name {
			nodes = append(nodes, nodeDevices{name: name})
		}
		node := &nodes[len(nodes)-1]
		for _, device := range slice.Spec.Devices {
			node.devices = append(node.devices, resourceapi.DeviceRequestAllocationResult{
				Request: request, Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name,
			})
		}
	}
	return nodes
}

func occupyingClaim(index int, node string, devices []resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: OccupiedNamespace, Name: fmt.Sprintf("occupied-%d", index)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: request,
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: deviceClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(len(devices)),
			},
		}}}},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: devices},
			NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}},
	}
}

// Occupy creates the claims and writes their allocations as the field manager. Our schedulers
// infer the allocating scheduler from it (docs/design/commit-protocol.md). It can be called again for more claims.
func Occupy(ctx context.Context, client kubernetes.Interface, claims []*resourceapi.ResourceClaim, manager string) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: OccupiedNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("occupy devices: %w", err)
	}
	api := client.ResourceV1().ResourceClaims(OccupiedNamespace)
	return InParallel(ctx, len(claims), func(i int) error {
		created, err := api.Create(ctx, claims[i], metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("occupy devices: %w", err)
		}
		created.Status = claims[i].Status
		options := metav1.UpdateOptions{FieldManager: manager}
		if _, err := api.UpdateStatus(ctx, created, options); err != nil {
			return fmt.Errorf("occupy devices: write the allocation of claim %s: %w", created.Name, err)
		}
		return nil
	})
}
