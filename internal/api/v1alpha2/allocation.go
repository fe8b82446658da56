package v1alpha2

import (
	"fmt"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
)

// outline is an allocation without the parts that the hub has fields for: devices and nodes. In place of devices, it
// has results without a name.
type outline struct {
	DriverName string `json:"driverName,omitempty"`
	AllocationResult
}

// requestName returns the request name of a result in the hub, which identifies the driver and the position of its
// request.
func requestName(driver string, i int) string { return driver + "-" + strconv.Itoa(i) }

// allocationToHub splits an allocation into devices and outline.
func allocationToHub(driverName string, allocation *AllocationResult) (*resourceapi.AllocationResult, error) {
	hub := &resourceapi.AllocationResult{NodeSelector: allocation.AvailableOnNodes}
	rest := outline{DriverName: driverName, AllocationResult: *allocation}
	rest.AvailableOnNodes = nil
	rest.ResourceHandles = slices.Clone(allocation.ResourceHandles)
	for h := range rest.ResourceHandles {
		handle := &rest.ResourceHandles[h]
		if handle.StructuredData == nil {
			continue
		}
		structured := *handle.StructuredData
		structured.Results = slices.Clone(structured.Results)
		for i := range structured.Results {
			result := &structured.Results[i]
			if result.NamedResources == nil {
				return nil, fmt.Errorf("result %d for driver %s names no device; it may use an API that this scheduler does not know", i, handle.DriverName)
			}
			hub.Devices.Results = append(hub.Devices.Results, resourceapi.DeviceRequestAllocationResult{
				Request: requestName(handle.DriverName, i), Driver: handle.DriverName,
				Pool: structured.NodeName, Device: result.NamedResources.Name,
			})
			result.NamedResources = nil
		}
		if len(structured.Results) > 0 {
			structured.NodeName = "" // The devices determine the node.
		}
		handle.StructuredData = &structured
	}
	hub.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: carry(rest),
	}}
	return hub, nil
}

// allocationFromHub joins devices and outline. The allocation cannot have other configurations or other details of
// devices, because Resolve does not ask for any.
func allocationFromHub(hub *resourceapi.AllocationResult) (driverName string, allocation *AllocationResult, err error) {
	rest, err := outlineOf(hub)
	if err != nil {
		return "", nil, err
	}
	for i := range hub.Devices.Results {
		if err := rest.place(&hub.Devices.Results[i]); err != nil {
			return "", nil, err
		}
	}
	if driver, i, found := rest.gap(); found {
		return "", nil, fmt.Errorf("it has no device for request %s; allocate devices for all requests of the claim", requestName(driver, i))
	}
	rest.AvailableOnNodes = hub.NodeSelector
	return rest.DriverName, &rest.AllocationResult, nil
}

func outlineOf(hub *resourceapi.AllocationResult) (*outline, error) {
	for i := range hub.Devices.Config {
		rest := &outline{}
		if found, err := carried(&hub.Devices.Config[i].DeviceConfiguration, rest); err != nil || found {
			return rest, err
		}
	}
	return nil, fmt.Errorf("it lacks the configuration for %s which v1alpha2 needs; "+
		"allocate claims as Parameters.Resolve returns them", Carrier)
}

// place puts a device into its result of the outline.
func (o *outline) place(device *resourceapi.DeviceRequestAllocationResult) error {
	for h := range o.ResourceHandles {
		handle := &o.ResourceHandles[h]
		if handle.StructuredData == nil || handle.DriverName != device.Driver {
			continue
		}
		for i := range handle.StructuredData.Results {
			result := &handle.StructuredData.Results[i]
			if result.NamedResources != nil || requestName(handle.DriverName, i) != device.Request {
				continue
			}
			if node := handle.StructuredData.NodeName; node != "" && node != device.Pool {
				return fmt.Errorf("it has devices of driver %s on nodes %s and %s; in v1alpha2 all have to be on one node", device.Driver, node, device.Pool)
			}
			handle.StructuredData.NodeName = device.Pool
			result.NamedResources = &NamedResourcesAllocationResult{Name: device.Device}
			return nil
		}
	}
	return fmt.Errorf("it has device %s/%s/%s for request %s which the claim does not have (any more); allocate the claim as it is now",
		device.Driver, device.Pool, device.Device, device.Request)
}

// gap returns the first request without a device.
func (o *outline) gap() (driver string, request int, found bool) {
	for _, handle := range o.ResourceHandles {
		if handle.StructuredData == nil {
			continue
		}
		for i, result := range handle.StructuredData.Results {
			if result.NamedResources == nil {
				return handle.DriverName, i, true
			}
		}
	}
	return "", 0, false
}
