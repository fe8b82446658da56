package quartermaster

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// deviceRequests is how the extended resources of a pod's containers become requests of
// one claim (KEP-5004).
//
// A container that runs along with others, which sidecars do, has a request of its own
// for each resource. An init container ends before the containers after it begin, so it
// uses the devices of theirs, and only what it lacks then is requested on top. Of the
// init containers that lack something, at most one runs at a time: they share the largest
// of these requests.
type deviceRequests struct {
	requests []resourceapi.DeviceRequest
	// mappings say which requests a container uses for a resource, for the pod's status.
	mappings []v1.ContainerExtendedResourceRequest
}

// requestsFor makes the requests for some of a pod's resources, each of which has a class.
// They are sorted by name.
func requestsFor(pod *v1.Pod, resources []extendedResource) deviceRequests {
	var result deviceRequests
	for _, resource := range resources {
		result.add(pod, resource)
	}
	slices.SortFunc(result.requests, func(a, b resourceapi.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return result
}

// add adds the requests for one resource.
func (d *deviceRequests) add(pod *v1.Pod, resource extendedResource) {
	// lasting has the requests of containers that run along with others, in their order,
	// and their places among all containers.
	var lasting []resourceapi.DeviceRequest
	var places []int
	var passing []int
	containers := slices.Collect(containersOf(pod))
	for i, container := range containers {
		count := countOf(container, resource.name)
		switch {
		case count == 0:
		case i < len(pod.Spec.InitContainers) && !restartsAlways(container):
			passing = append(passing, i)
		default:
			lasting, places = append(lasting, newDeviceRequest(i, container, resource, count)), append(places, i)
			d.uses(container, resource, lasting[len(lasting)-1].Name)
		}
	}
	var largest resourceapi.DeviceRequest
	var lacking []int // positions in mappings
	for _, i := range passing {
		later := slices.IndexFunc(places, func(place int) bool { return place > i })
		if later < 0 {
			later = len(lasting)
		}
		lack := d.reuse(containers[i], resource, lasting[later:])
		if lack == 0 {
			continue
		}
		if largest.Exactly == nil || lack > largest.Exactly.Count {
			largest = newDeviceRequest(i, containers[i], resource, lack)
		}
		lacking = append(lacking, len(d.mappings))
		d.uses(containers[i], resource, "")
	}
	for _, position := range lacking {
		d.mappings[position].RequestName = largest.Name
	}
	if largest.Exactly != nil {
		d.requests = append(d.requests, largest)
	}
	d.requests = append(d.requests, lasting...)
}

// reuse lets an init container use requests of later containers, as many as it needs. It
// returns how many devices it lacks then.
func (d *deviceRequests) reuse(container *v1.Container, resource extendedResource, requests []resourceapi.DeviceRequest) int64 {
	lack := countOf(container, resource.name)
	for i := range requests {
		if lack <= 0 {
			return 0
		}
		d.uses(container, resource, requests[i].Name)
		lack -= requests[i].Exactly.Count
	}
	return max(lack, 0)
}

func (d *deviceRequests) uses(container *v1.Container, resource extendedResource, request string) {
	d.mappings = append(d.mappings, v1.ContainerExtendedResourceRequest{
		ContainerName: container.Name, ResourceName: string(resource.name), RequestName: request,
	})
}

// newDeviceRequest makes a request for some devices of the class. Its name has the place
// of the container among all containers, init containers first, and that of the resource
// among all in the container's requests, sorted by name. The in-tree plugin's requests
// are named like that as well.
func newDeviceRequest(place int, container *v1.Container, resource extendedResource, count int64) resourceapi.DeviceRequest {
	rank := 0
	for name := range container.Resources.Requests {
		if name < resource.name {
			rank++
		}
	}
	return resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", place, rank),
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: resource.class.Name,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           count,
		},
	}
}

// countOf returns how many devices a container wants for a resource. The API server lets
// only whole numbers through.
func countOf(container *v1.Container, resource v1.ResourceName) int64 {
	quantity, ok := container.Resources.Requests[resource]
	if !ok {
		return 0
	}
	count, whole := quantity.AsInt64()
	if !whole {
		return 0
	}
	return count
}

// restartsAlways reports whether an init container is a sidecar (KEP-753).
func restartsAlways(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// tooMany returns why the requests cannot be those of a claim, "" if they can.
func (d *deviceRequests) tooMany() string {
	if len(d.requests) <= resourceapi.DeviceRequestsMaxSize {
		return ""
	}
	return fmt.Sprintf("the extended resources of the pod's containers would take %d requests for devices, a claim can have %d; "+
		"use ResourceClaims, or fewer containers that ask for devices", len(d.requests), resourceapi.DeviceRequestsMaxSize)
}
