package extended

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gpuResource is the extended resource of class gpu, and implicitGPU its other name.
const (
	gpuResource = "example.com/gpu"
	nicResource = "example.com/nic"
	implicitGPU = resourceapi.ResourceDeviceClassPrefix + "gpu"
)

func TestRequestsFor(t *testing.T) {
	t.Parallel()
	const gpu, nic = gpuResource, nicResource
	tests := map[string]struct {
		pod *v1.Pod
		// requests as "name: count class", mappings as "container resource: request".
		requests, mappings []string
	}{
		"nothing": {pod: builder.Pod("p", builder.Container("main", "cpu", "1"))},
		"one container": {
			pod:      builder.Pod("p", builder.Container("main", gpu, "2")),
			requests: []string{"container-0-request-0: 2 gpu"},
			mappings: []string{"main example.com/gpu: container-0-request-0"},
		},
		"the place among all resources of the container counts": {
			pod:      builder.Pod("p", builder.Container("main", "cpu", "1", gpu, "1", "memory", "1Gi", nic, "2")),
			requests: []string{"container-0-request-1: 1 gpu", "container-0-request-2: 2 nic"},
			mappings: []string{"main example.com/gpu: container-0-request-1", "main example.com/nic: container-0-request-2"},
		},
		"containers that ask for nothing, or for none, count as places": {
			pod:      builder.Pod("p", builder.Container("first"), builder.Container("second", gpu, "0"), builder.Container("third", gpu, "1k")),
			requests: []string{"container-2-request-0: 1000 gpu"},
			mappings: []string{"third example.com/gpu: container-2-request-0"},
		},
		"several containers": {
			pod:      builder.Pod("p", builder.Container("a", gpu, "1"), builder.Container("b", gpu, "2", nic, "1")),
			requests: []string{"container-0-request-0: 1 gpu", "container-1-request-0: 2 gpu", "container-1-request-1: 1 nic"},
			mappings: []string{"a example.com/gpu: container-0-request-0", "b example.com/gpu: container-1-request-0", "b example.com/nic: container-1-request-1"},
		},
		"explicit and implicit name of one class": {
			pod:      builder.Pod("p", builder.Container("main", gpu, "1", implicitGPU, "2")),
			requests: []string{"container-0-request-0: 2 gpu", "container-0-request-1: 1 gpu"},
			mappings: []string{"main deviceclass.resource.kubernetes.io/gpu: container-0-request-0", "main example.com/gpu: container-0-request-1"},
		},
		"an init container uses what later containers have": {
			pod:      builder.Pod("p", builder.InitContainer("init", gpu, "2"), builder.Container("a", gpu, "1"), builder.Container("b", gpu, "2"), builder.Container("c", gpu, "1")),
			requests: []string{"container-1-request-0: 1 gpu", "container-2-request-0: 2 gpu", "container-3-request-0: 1 gpu"},
			mappings: []string{
				"a example.com/gpu: container-1-request-0", "b example.com/gpu: container-2-request-0", "c example.com/gpu: container-3-request-0",
				"init example.com/gpu: container-1-request-0", "init example.com/gpu: container-2-request-0",
			},
		},
		"an init container that wants more": {
			pod:      builder.Pod("p", builder.InitContainer("init", gpu, "5"), builder.Container("main", gpu, "2")),
			requests: []string{"container-0-request-0: 3 gpu", "container-1-request-0: 2 gpu"},
			mappings: []string{
				"main example.com/gpu: container-1-request-0",
				"init example.com/gpu: container-1-request-0", "init example.com/gpu: container-0-request-0",
			},
		},
		"init containers share the largest request": {
			pod:      builder.Pod("p", builder.InitContainer("a", gpu, "1"), builder.InitContainer("b", gpu, "3"), builder.InitContainer("c", gpu, "3"), builder.Container("main", "cpu", "1")),
			requests: []string{"container-1-request-0: 3 gpu"},
			mappings: []string{
				"a example.com/gpu: container-1-request-0", "b example.com/gpu: container-1-request-0", "c example.com/gpu: container-1-request-0",
			},
		},
		"only an init container": {
			pod:      builder.Pod("p", builder.InitContainer("init", nic, "1"), builder.Container("main", gpu, "1")),
			requests: []string{"container-0-request-0: 1 nic", "container-1-request-0: 1 gpu"},
			mappings: []string{"main example.com/gpu: container-1-request-0", "init example.com/nic: container-0-request-0"},
		},
		"a sidecar keeps its own, and init containers before it may use that": {
			pod: builder.Pod("p", builder.InitContainer("before", gpu, "1"), builder.Sidecar("side", gpu, "1"), builder.InitContainer("after", gpu, "2"), builder.Container("main", gpu, "1")),
			requests: []string{
				"container-1-request-0: 1 gpu", "container-2-request-0: 1 gpu", "container-3-request-0: 1 gpu",
			},
			mappings: []string{
				"side example.com/gpu: container-1-request-0", "main example.com/gpu: container-3-request-0",
				"before example.com/gpu: container-1-request-0",
				"after example.com/gpu: container-3-request-0", "after example.com/gpu: container-2-request-0",
			},
		},
		"sorted by name as text": {
			pod: builder.Pod("p", many(11, gpu)...),
			requests: []string{
				"container-0-request-0: 1 gpu", "container-1-request-0: 1 gpu", "container-10-request-0: 1 gpu",
				"container-2-request-0: 1 gpu", "container-3-request-0: 1 gpu", "container-4-request-0: 1 gpu",
				"container-5-request-0: 1 gpu", "container-6-request-0: 1 gpu", "container-7-request-0: 1 gpu",
				"container-8-request-0: 1 gpu", "container-9-request-0: 1 gpu",
			},
		},
	}
	resources := []Resource{{v1.ResourceName(implicitGPU), builder.Class("gpu")}, {gpu, builder.Class("gpu")}, {nic, builder.Class("nic")}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := RequestsFor(test.pod, resources)
			var requests, mappings []string
			for _, request := range got.Devices {
				require.Equal(t, resourceapi.DeviceAllocationModeExactCount, request.Exactly.AllocationMode)
				requests = append(requests, fmt.Sprintf("%s: %d %s", request.Name, request.Exactly.Count, request.Exactly.DeviceClassName))
			}
			for _, mapping := range got.Mappings {
				mappings = append(mappings, fmt.Sprintf("%s %s: %s", mapping.ContainerName, mapping.ResourceName, mapping.RequestName))
			}
			require.Equal(t, test.requests, requests)
			if test.mappings != nil {
				require.Equal(t, test.mappings, mappings)
			}
			require.NoError(t, got.Err())
		})
	}
}

// many makes n containers that ask for one each.
func many(n int, resource string) []func(*v1.Pod) {
	var containers []func(*v1.Pod)
	for i := range n {
		containers = append(containers, builder.Container(fmt.Sprintf("c%d", i), resource, "1"))
	}
	return containers
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	resources := []Resource{{gpuResource, builder.Class("gpu")}}
	most := RequestsFor(builder.Pod("p", many(32, gpuResource)...), resources)
	require.NoError(t, most.Err())
	tooMany := RequestsFor(builder.Pod("p", many(33, gpuResource)...), resources)
	require.ErrorContains(t, tooMany.Err(), "would take 33 requests for devices; a claim can have 32")

	pod := builder.Pod("p", many(1000, gpuResource)...)
	for i := range 1000 { // Each could use devices of all containers.
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, *pod.Spec.Containers[i].DeepCopy())
		pod.Spec.InitContainers[i].Resources.Requests[gpuResource] = resource.MustParse("1M")
	}
	tooMany = RequestsFor(pod, resources)
	require.Error(t, tooMany.Err())
	require.LessOrEqual(t, len(tooMany.Mappings), 2000)
}

// TestOf: each resource is listed once, however many containers ask for it.
func TestOf(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p", append(many(3, "b.example.com/gpu"), many(2, "a.example.com/gpu")...)...)
	for i := range 20_000 { // The API server allows that.
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprintf("c.example.com/%05d", i))] = resource.MustParse("1")
	}
	resources := Of(pod, noClasses{})
	require.Len(t, resources, 20_002)
	require.EqualValues(t, "a.example.com/gpu", resources[0].Name)
	require.EqualValues(t, "b.example.com/gpu", resources[1].Name)
}

type noClasses struct{}

func (noClasses) GetDeviceClass(v1.ResourceName) *resourceapi.DeviceClass { return nil }
