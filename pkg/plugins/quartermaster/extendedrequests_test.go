package quartermaster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestRequestsFor(t *testing.T) {
	t.Parallel()
	const gpu, nic = gpuResource, nicResource
	tests := map[string]struct {
		pod *v1.Pod
		// requests as "name: count class", mappings as "container resource: request".
		requests, mappings []string
	}{
		"nothing": {pod: newPod("p", asks("main", "cpu", "1"))},
		"one container": {
			pod:      newPod("p", asks("main", gpu, "2")),
			requests: []string{"container-0-request-0: 2 gpu"},
			mappings: []string{"main example.com/gpu: container-0-request-0"},
		},
		"the place among all resources of the container counts": {
			pod:      newPod("p", asks("main", "cpu", "1", gpu, "1", "memory", "1Gi", nic, "2")),
			requests: []string{"container-0-request-1: 1 gpu", "container-0-request-2: 2 nic"},
			mappings: []string{"main example.com/gpu: container-0-request-1", "main example.com/nic: container-0-request-2"},
		},
		"containers that ask for nothing, or for none, count as places": {
			pod:      newPod("p", asks("first"), asks("second", gpu, "0"), asks("third", gpu, "1k")),
			requests: []string{"container-2-request-0: 1000 gpu"},
			mappings: []string{"third example.com/gpu: container-2-request-0"},
		},
		"several containers": {
			pod:      newPod("p", asks("a", gpu, "1"), asks("b", gpu, "2", nic, "1")),
			requests: []string{"container-0-request-0: 1 gpu", "container-1-request-0: 2 gpu", "container-1-request-1: 1 nic"},
			mappings: []string{"a example.com/gpu: container-0-request-0", "b example.com/gpu: container-1-request-0", "b example.com/nic: container-1-request-1"},
		},
		"explicit and implicit name of one class": {
			pod:      newPod("p", asks("main", gpu, "1", implicitGPU, "2")),
			requests: []string{"container-0-request-0: 2 gpu", "container-0-request-1: 1 gpu"},
			mappings: []string{"main deviceclass.resource.kubernetes.io/gpu: container-0-request-0", "main example.com/gpu: container-0-request-1"},
		},
		"an init container uses what later containers have": {
			pod:      newPod("p", asksFirst("init", gpu, "2"), asks("a", gpu, "1"), asks("b", gpu, "2"), asks("c", gpu, "1")),
			requests: []string{"container-1-request-0: 1 gpu", "container-2-request-0: 2 gpu", "container-3-request-0: 1 gpu"},
			mappings: []string{
				"a example.com/gpu: container-1-request-0", "b example.com/gpu: container-2-request-0", "c example.com/gpu: container-3-request-0",
				"init example.com/gpu: container-1-request-0", "init example.com/gpu: container-2-request-0",
			},
		},
		"an init container that wants more": {
			pod:      newPod("p", asksFirst("init", gpu, "5"), asks("main", gpu, "2")),
			requests: []string{"container-0-request-0: 3 gpu", "container-1-request-0: 2 gpu"},
			mappings: []string{
				"main example.com/gpu: container-1-request-0",
				"init example.com/gpu: container-1-request-0", "init example.com/gpu: container-0-request-0",
			},
		},
		"init containers share the largest request": {
			pod:      newPod("p", asksFirst("a", gpu, "1"), asksFirst("b", gpu, "3"), asksFirst("c", gpu, "3"), asks("main", "cpu", "1")),
			requests: []string{"container-1-request-0: 3 gpu"},
			mappings: []string{
				"a example.com/gpu: container-1-request-0", "b example.com/gpu: container-1-request-0", "c example.com/gpu: container-1-request-0",
			},
		},
		"only an init container": {
			pod:      newPod("p", asksFirst("init", nic, "1"), asks("main", gpu, "1")),
			requests: []string{"container-0-request-0: 1 nic", "container-1-request-0: 1 gpu"},
			mappings: []string{"main example.com/gpu: container-1-request-0", "init example.com/nic: container-0-request-0"},
		},
		"a sidecar keeps its own, and init containers before it may use that": {
			pod: newPod("p", asksFirst("before", gpu, "1"), sidecar("side", gpu, "1"), asksFirst("after", gpu, "2"), asks("main", gpu, "1")),
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
			pod: newPod("p", many(11, gpu)...),
			requests: []string{
				"container-0-request-0: 1 gpu", "container-1-request-0: 1 gpu", "container-10-request-0: 1 gpu",
				"container-2-request-0: 1 gpu", "container-3-request-0: 1 gpu", "container-4-request-0: 1 gpu",
				"container-5-request-0: 1 gpu", "container-6-request-0: 1 gpu", "container-7-request-0: 1 gpu",
				"container-8-request-0: 1 gpu", "container-9-request-0: 1 gpu",
			},
		},
	}
	resources := []extendedResource{{v1.ResourceName(implicitGPU), builder.Class("gpu")}, {gpu, builder.Class("gpu")}, {nic, builder.Class("nic")}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := requestsFor(test.pod, resources)
			var requests, mappings []string
			for _, request := range got.requests {
				require.Equal(t, resourceapi.DeviceAllocationModeExactCount, request.Exactly.AllocationMode)
				requests = append(requests, fmt.Sprintf("%s: %d %s", request.Name, request.Exactly.Count, request.Exactly.DeviceClassName))
			}
			for _, mapping := range got.mappings {
				mappings = append(mappings, fmt.Sprintf("%s %s: %s", mapping.ContainerName, mapping.ResourceName, mapping.RequestName))
			}
			require.Equal(t, test.requests, requests)
			if test.mappings != nil {
				require.Equal(t, test.mappings, mappings)
			}
			require.Empty(t, got.tooMany())
		})
	}
}

// many makes n containers that ask for one each.
func many(n int, resource string) []func(*v1.Pod) {
	var containers []func(*v1.Pod)
	for i := range n {
		containers = append(containers, asks(fmt.Sprintf("c%d", i), resource, "1"))
	}
	return containers
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	resources := []extendedResource{{gpuResource, builder.Class("gpu")}}
	most := requestsFor(newPod("p", many(32, gpuResource)...), resources)
	require.Empty(t, most.tooMany())
	tooMany := requestsFor(newPod("p", many(33, gpuResource)...), resources)
	require.Contains(t, tooMany.tooMany(), "would take 33 requests for devices, a claim can have 32")
}

func TestNameOfExtendedClaim(t *testing.T) {
	t.Parallel()
	pod := newPod("web-0")
	claim := newExtendedClaim(pod)
	require.Regexp(t, "^web-0-extended-resources-[0-9a-f]{10}$", claim.Name)
	require.Equal(t, "web-0-extended-resources-", claim.GenerateName)
	require.Equal(t, pod.UID, ownerOfExtendedClaim(claim))
	again := newExtendedClaim(pod)
	require.Equal(t, claim.Name, again.Name, "follows from the pod")
	require.NotEqual(t, claim.UID, again.UID)
	recreated := newPod("web-0", func(pod *v1.Pod) { pod.UID = "another" })
	require.NotEqual(t, claim.Name, newExtendedClaim(recreated).Name)

	long := newExtendedClaim(newPod(strings.Repeat("x", 200)))
	require.Len(t, long.Name, 63)
	require.NotEqual(t, long.Name, newExtendedClaim(newPod(strings.Repeat("x", 201))).Name)
}

func TestOwnerOfExtendedClaim(t *testing.T) {
	t.Parallel()
	require.Empty(t, ownerOfExtendedClaim(with(gpus("c", 1).Obj(), ownedBy("p"))), "made from a template")
	annotated := with(newExtendedClaim(newPod("p")), func(claim *resourceapi.ResourceClaim) { claim.OwnerReferences = nil })
	require.Empty(t, ownerOfExtendedClaim(annotated))
}
