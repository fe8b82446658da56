package catalogue

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// Names of attributes of real drivers.
const (
	pcieRoot    = resourceapi.QualifiedName("resource.kubernetes.io/pcieRoot")
	numaNode    = resourceapi.QualifiedName("resource.kubernetes.io/numaNode")
	nvlinkLabel = "nvidia.com/gpu.clique"
)

// exampleRuns returns what happens to each file of examples in the demo. Where a file asks for some devices and not for
// others, there are nodes of both kinds.
func exampleRuns() []example {
	a100, h100, mig := with("a100-node"), with("h100-node"), with("h100-mig-node")
	runs := []example{
		runs("whole-gpu", nodes(a100), scenario.DevicesEach(1)),
		runs("two-gpus", nodes(h100), scenario.DevicesEach(2)),
		runs("all-devices", nodes(h100), scenario.DevicesEach(8)),
		runs("gpu-by-model", nodes(a100, h100), hasString("productName", "NVIDIA H100 80GB HBM3")),
		runs("gpu-by-memory", nodes(a100, h100), hasAtLeast("memory", "60Gi")),
		runs("gpu-by-compute-capability", nodes(a100, h100), hasString("architecture", "Hopper")),
		runs("mig-profile", nodes(mig), scenario.DevicesEach(1), hasString("profile", "1g.10gb")),
		runs("mig-on-one-gpu", nodes(mig), scenario.DevicesEach(2), hasString("profile", "3g.40gb"), scenario.OneValueEach("parentUUID")),
		runs("gpu-amd", nodes(with("amd-gpu-node")), hasString("type", "amdgpu-partition")),
		runs("gpu-intel", nodes(with("intel-node")), hasString("health", "Healthy"), hasAtLeast("memory", "20Gi")),
		runs("gpu-per-container", nodes(h100), scenario.ByRequest(map[string]int{"trainer": 1, "evaluator": 1})),
		runs("containers-share-gpu", nodes(h100), scenario.DevicesEach(1)),
		runs("gpu-with-nic", nodes(with("h100-node", "h100-nics")),
			scenario.ByRequest(map[string]int{"gpu": 1, "nic": 1}), scenario.OneValueEach(pcieRoot)),
		runs("gpu-with-cpus", nodes(with("a100-node", "dra-cpu-groups-node")),
			scenario.ByRequest(map[string]int{"gpu": 1, "cpus": 1}), scenario.OneValueEach(numaNode)),
		runs("cpus-one-by-one", nodes(with("dra-cpu-counted-node")),
			scenario.DevicesEach(4), scenario.OneValueEach(numaNode), scenario.TakesOfNode(corev1.ResourceCPU, "4")),
		runs("two-gpus-one-numa", nodes(a100), scenario.DevicesEach(2), scenario.OneValueEach(numaNode)),
		runs("gpus-on-different-roots", nodes(a100), scenario.DevicesEach(2), scenario.DistinctValuesEach(pcieRoot)),
		runs("fallback-list", nodes(a100), scenario.DevicesEach(2), scenario.FromRequest("gpu/a100")),
		runs("device-config", nodes(h100), scenario.Configs(scenario.ConfigEntry{
			Source: resourceapi.AllocationConfigSourceClaim, Driver: "gpu.nvidia.com",
			Parameters: `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}}`,
		})),
		runs("extended-resource", nodes(h100), scenario.DevicesEach(1)),
		runs("taint-tolerated", nodes(with("a100-xid-node")), scenario.DevicesEach(1), scenario.Tolerates("gpu.nvidia.com/xid")),
	}
	return append(append(runs, examplesOfManyPods()...), examplesThatWait()...)
}

// examplesOfManyPods are those with more than one pod.
func examplesOfManyPods() []example {
	a100, h100 := with("a100-node"), with("h100-node")
	rack := func(clique string) exampleNode {
		return exampleNode{slices: h100.slices, labels: map[string]string{nvlinkLabel: clique}}
	}
	nvlink := example{file: "gang-nvlink", hardware: nodes(rack("a.0"), rack("b.0"), rack("b.0"))}
	nvlink.expect = []scenario.Expectation{scenario.Scheduled("gang-nvlink", 2,
		scenario.OnNodes(nvlink.node(1), nvlink.node(2)), scenario.DifferentNodes())}
	return []example{
		{file: "shared-claim", hardware: nodes(h100), expect: []scenario.Expectation{
			scenario.Scheduled("shared-claim", 2, scenario.SameDevices(), scenario.DevicesEach(1), scenario.ReservedFor(2)),
		}},
		{file: "shared-capacity", hardware: nodes(with("a100-shares-node")), expect: []scenario.Expectation{
			scenario.Scheduled("shared-capacity", 4, scenario.DevicesEach(1), scenario.Consumes("memory", "10Gi")),
		}},
		{file: "deployment-with-template", hardware: nodes(a100), expect: []scenario.Expectation{
			scenario.Scheduled("deployment-with-template", 3, scenario.DevicesEach(1), scenario.NoDeviceTwice()),
		}},
		{file: "replicas-on-different-nodes", hardware: nodes(a100, h100), expect: []scenario.Expectation{
			scenario.Scheduled("replicas-on-different-nodes", 2, scenario.DevicesEach(1), scenario.DifferentNodes()),
		}},
		{file: "job-with-template", hardware: nodes(h100), expect: []scenario.Expectation{
			scenario.Scheduled("job-with-template", 4, scenario.Succeeded()),
		}},
		{
			file: "keep-room", hardware: nodes(h100, h100),
			expect: []scenario.Expectation{scenario.Scheduled("keep-room-small", 4, scenario.DevicesEach(1), scenario.NoDeviceTwice())},
			later:  []string{"keep-room-large"},
			// With the small pods on both nodes, there would be none for it.
			then: []scenario.Expectation{scenario.Scheduled("keep-room-large", 1, scenario.DevicesEach(8))},
		},
		{
			file: "admin-access", hardware: nodes(a100),
			expect: []scenario.Expectation{scenario.Scheduled("admin-access-user", 1, scenario.DevicesEach(2), scenario.AdminAccess(false))},
			later:  []string{"admin-access-monitor"},
			then: []scenario.Expectation{
				scenario.Scheduled("admin-access-user", 1, scenario.DevicesEach(2), scenario.AdminAccess(false)),
				scenario.Scheduled("admin-access-monitor", 1, scenario.DevicesEach(4), scenario.AdminAccess(true)),
			},
		},
		{file: "gang", hardware: nodes(h100, h100), expect: []scenario.Expectation{
			scenario.Scheduled("gang", 2, scenario.DifferentNodes()),
		}},
		{file: "gang-kubernetes", hardware: nodes(h100, h100), expect: []scenario.Expectation{
			scenario.Scheduled("gang-kubernetes", 2, scenario.DifferentNodes()),
		}},
		nvlink,
	}
}

// examplesThatWait are those with pods that are not scheduled.
func examplesThatWait() []example {
	h100 := with("h100-node")
	return []example{
		{
			file: "preemption", hardware: nodes(h100),
			expect: []scenario.Expectation{scenario.Scheduled("preemption-batch", 1, scenario.DevicesEach(8))},
			later:  []string{"preemption-urgent"},
			then: []scenario.Expectation{
				scenario.Scheduled("preemption-urgent", 1, scenario.DevicesEach(8)),
				scenario.Waits("preemption-batch", 1, scenario.Reason{Cause: devicesHeld, Entry: "gpu", Request: "gpu"}),
			},
		},
		{
			file: "cpus-by-numa-node", hardware: nodes(with("dra-cpu-groups-counted-node")),
			expect: []scenario.Expectation{scenario.Scheduled("cpus-by-numa-node", 2,
				scenario.Consumes("dra.cpu/cpu", "12"), scenario.TakesOfNode(corev1.ResourceCPU, "12"))},
			later: []string{"cpus-by-numa-node-late"},
			then:  []scenario.Expectation{scenario.Waits("cpus-by-numa-node-late", 1, scenario.Reason{Cause: nodeFull})},
		},
		waits("too-many-gpus", nodes(h100), tooFewDevices),
		waits("wrong-model", nodes(h100), noDeviceMatches),
	}
}

func nodes(nodes ...exampleNode) []exampleNode { return nodes }

// runs is a file with one pod, named after it, which runs.
func runs(file string, hardware []exampleNode, checks ...scenario.Check) example {
	return example{file: file, hardware: hardware, expect: []scenario.Expectation{scenario.Scheduled(file, 1, checks...)}}
}

// waits is a file with one pod, named after it, whose request "gpu" cannot be met.
func waits(file string, hardware []exampleNode, cause scenario.Cause) example {
	reason := scenario.Reason{Cause: cause, Entry: "gpu", Request: "gpu"}
	return example{file: file, hardware: hardware, expect: []scenario.Expectation{scenario.Waits(file, 1, reason)}}
}

// hasString wants a string attribute of every device to have a value.
func hasString(attribute resourceapi.QualifiedName, value string) scenario.Check {
	return scenario.EveryDevice(string(attribute)+" "+value, func(device *resourceapi.Device) bool {
		found := device.Attributes[attribute].StringValue
		return found != nil && *found == value
	})
}

// hasAtLeast wants every device to have at least an amount of a capacity.
func hasAtLeast(capacity resourceapi.QualifiedName, amount string) scenario.Check {
	least := resource.MustParse(amount)
	return scenario.EveryDevice("at least "+amount+" of "+string(capacity), func(device *resourceapi.Device) bool {
		found := device.Capacity[capacity].Value
		return found.Cmp(least) >= 0
	})
}
