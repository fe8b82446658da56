package extended

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Requests maps the extended resources of a pod's containers to requests of one claim.
//
// A container that runs at the same time as others, for example a sidecar, has a request of its own
// for each resource. An init container ends before later containers begin, so it uses their
// devices, and only the missing devices are requested in addition. Of the init containers with
// missing devices, at most one runs at a time: they share the largest of these requests.
type Requests struct {
	// Devices holds the requests of the claim, sorted by name.
	Devices []resourceapi.DeviceRequest
	// Mappings says which requests a container uses for a resource, for the pod's status.
	Mappings []v1.ContainerExtendedResourceRequest
}

// RequestsFor makes the requests for some of a pod's resources, which must have a class.
func RequestsFor(pod *v1.Pod, resources []Resource) Requests {
	var result Requests
	for _, resource := range resources {
		result.add(pod, resource)
	}
	slices.SortFunc(result.Devices, func(a, b resourceapi.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return result
}

// add adds the requests for one resource.
func (d *Requests) add(pod *v1.Pod, resource Resource) {
	// lasting holds the requests of containers that run at the same time as others, in their order.
	// places holds their positions among all containers.
	var lasting []resourceapi.DeviceRequest
	var places []int
	var passing []int
	containers := slices.Collect(containersOf(pod))
	for i, container := range containers {
		count := countOf(container, resource.Name)
		switch {
		case count == 0:
		case i < len(pod.Spec.InitContainers) && !restartsAlways(container):
			passing = append(passing, i)
		default:
			lasting, places = append(lasting, newDeviceRequest(i, container, resource, count)), append(places, i)
			d.uses(container, resource, lasting[len(lasting)-1].Name)
		}
	}
	if len(d.Devices)+len(lasting) > resourceapi.DeviceRequestsMaxSize { // No claim holds them: see Err.
		d.Devices = append(d.Devices, lasting...)
		return
	}
	var largest resourceapi.DeviceRequest
	var most int64
	var lacking []int // positions in Mappings
	for _, i := range passing {
		later := slices.IndexFunc(places, func(place int) bool { return place > i })
		if later < 0 {
			later = len(lasting)
		}
		lack := d.reuse(containers[i], resource, lasting[later:])
		if lack == 0 {
			continue
		}
		if lack > most {
			largest, most = newDeviceRequest(i, containers[i], resource, lack), lack
		}
		lacking = append(lacking, len(d.Mappings))
		d.uses(containers[i], resource, "")
	}
	for _, position := range lacking {
		d.Mappings[position].RequestName = largest.Name
	}
	if most > 0 {
		d.Devices = append(d.Devices, largest)
	}
	d.Devices = append(d.Devices, lasting...)
}

// reuse makes an init container use as many requests of later containers as it needs. It returns
// the number of devices that are still missing.
func (d *Requests) reuse(container *v1.Container, resource Resource, requests []resourceapi.DeviceRequest) int64 {
	lack := countOf(container, resource.Name)
	for request := range dra.RequestsIn(requests) {
		if lack <= 0 {
			return 0
		}
		d.uses(container, resource, request.Name())
		lack -= request.Count
	}
	return max(lack, 0)
}

func (d *Requests) uses(container *v1.Container, resource Resource, request string) {
	d.Mappings = append(d.Mappings, v1.ContainerExtendedResourceRequest{
		ContainerName: container.Name, ResourceName: string(resource.Name), RequestName: request,
	})
}

// newDeviceRequest makes a request for some devices of the class. Its name contains the position of
// the container among all containers, init containers first, and the rank of the resource among
// those in the container's requests, sorted by name. The in-tree plugin uses the same names.
func newDeviceRequest(place int, container *v1.Container, resource Resource, count int64) resourceapi.DeviceRequest {
	rank := 0
	for name := range container.Resources.Requests {
		if name < resource.Name {
			rank++
		}
	}
	return resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", place, rank),
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: resource.Class.Name,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           count,
		},
	}
}

// countOf returns the number of devices that a container asks for by a resource. The API server
// accepts only whole numbers.
func countOf(container *v1.Container, resource v1.ResourceName) int64 {
	asked, ok := container.Resources.Requests[resource]
	if !ok || !quantity.Countable(asked) {
		return 0
	}
	return quantity.Value(asked)
}

// restartsAlways reports whether an init container is a sidecar (KEP-753).
func restartsAlways(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Err returns why a claim cannot hold the requests, nil if it can.
func (d *Requests) Err() error {
	if len(d.Devices) <= resourceapi.DeviceRequestsMaxSize {
		return nil
	}
	return fmt.Errorf("the extended resources of the pod's containers would take %d requests for devices; a claim can have %d; "+
		"use ResourceClaims or fewer containers that ask for devices", len(d.Devices), resourceapi.DeviceRequestsMaxSize)
}
