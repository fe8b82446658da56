// Command karpenter is Karpenter with its cloud provider for KWOK, whose instance types have devices. That provider on its own
// knows of none.
//
// Besides Karpenter's own settings it reads DEVICES_FILE_PATH: a JSON file that maps names of instance types to the specs of the
// ResourceSlices that a driver would publish for a node of that type. Of a device, the name, attributes, capacities, sharing and consumed
// counters count: Karpenter has no place for the rest.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	ctx, op := operator.NewOperator()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	types, err := instanceTypes(ctx, os.Getenv("DEVICES_FILE_PATH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plain := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	provider := overlay.Decorate(plain, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider)
	op.WithControllers(ctx, controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, provider, plain, cluster,
		op.InstanceTypeStore)...)
	op.Start(ctx)
}

// instanceTypes returns the provider's instance types, with the devices that a file gives them.
func instanceTypes(ctx context.Context, devices string) ([]*cloudprovider.InstanceType, error) {
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil || devices == "" {
		return types, err
	}
	text, err := os.ReadFile(devices)
	if err != nil {
		return nil, err
	}
	var published map[string][]resourceapi.ResourceSliceSpec
	if err := json.Unmarshal(text, &published); err != nil {
		return nil, fmt.Errorf("read the devices in %s: %w", devices, err)
	}
	for _, instanceType := range types {
		for _, slice := range published[instanceType.Name] {
			instanceType.DynamicResources.ResourceSliceTemplates = append(instanceType.DynamicResources.ResourceSliceTemplates, template(&slice))
		}
		delete(published, instanceType.Name)
	}
	for unknown := range published {
		return nil, fmt.Errorf("read the devices in %s: found devices of %s, which is no instance type; add it to INSTANCE_TYPES_FILE_PATH", devices, unknown)
	}
	return types, nil
}

// template returns a slice as Karpenter expects it on a new node.
func template(slice *resourceapi.ResourceSliceSpec) *cloudprovider.ResourceSliceTemplate {
	expected := &cloudprovider.ResourceSliceTemplate{
		Driver:         unique.Make(slice.Driver),
		Pool:           cloudprovider.ResourcePool{Name: unique.Make(slice.Pool.Name)},
		SharedCounters: slice.SharedCounters,
	}
	for i := range slice.Devices {
		device := &slice.Devices[i]
		shared := device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations
		expected.Devices = append(expected.Devices, cloudprovider.Device{
			Name: unique.Make(device.Name), Attributes: device.Attributes, Capacity: device.Capacity,
			AllowMultipleAllocations: shared, ConsumesCounters: device.ConsumesCounters,
		})
	}
	return expected
}
