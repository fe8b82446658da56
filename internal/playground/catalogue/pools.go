package catalogue

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// poolScenarios show how slices make up a pool, and when they do not.
func poolScenarios() []scenario.Scenario {
	return []scenario.Scenario{severalSlices(), newerGeneration(), incompletePool(), invalidPool()}
}

func severalSlices() scenario.Scenario {
	const name = "several-slices"
	node := scenario.NodeName(name, 0)
	pod := func(title string, count int64) []runtime.Object {
		return []runtime.Object{
			workload.Claim(title, workload.Request("gpu", gpus(count))),
			workload.Pod(title, title, onNodesOf(name, claimed(title))),
		}
	}
	return scenario.Scenario{
		Name:  name,
		Shows: "A pool published in two slices of four GPUs; a claim takes devices from both.",
		Cluster: append(scenario.Nodes(name, 1),
			fleet.Part(fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, 4)...), 0, 2),
			fleet.Part(fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 4, 4)...), 1, 2)),
		Steps: []scenario.Step{
			scenario.Create(pod("six", 6)...),
			scenario.Expect(scenario.Scheduled("six", 1, scenario.DevicesEach(6))),
			scenario.Create(append(pod("two", 2), pod("one", 1)...)...),
			scenario.Expect(
				scenario.Scheduled("six", 1, scenario.DeviceNames("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")),
				scenario.Scheduled("two", 1, scenario.DeviceNames("gpu-6", "gpu-7")),
				scenario.Waits("one", 1, scenario.Reason{Cause: devicesHeld, Claim: "one", Request: "gpu"}),
			),
		},
	}
}

func newerGeneration() scenario.Scenario {
	const name = "newer-generation"
	node := scenario.NodeName(name, 0)
	old := fleet.Generation(fleet.LocalSlice(fleet.GPUDriver, node, fleet.SmallPlainGPUs(node, 0, 2)...), 1)
	newer := fleet.Generation(fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 10, 2)...), 2)
	return scenario.Scenario{
		Name:    name,
		Shows:   "A driver publishes its pool anew with other GPUs: those of the older generation are gone, although their slice still exists.",
		Cluster: append(scenario.Nodes(name, 1), old),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("large", workload.Request("gpu", gpus(1, gpuMemory+`.compareTo(quantity("80Gi")) >= 0`))),
				workload.Template("any", workload.Request("gpu", gpus(1))),
				workload.Pod("large", "large", onNodesOf(name, templated("large"))),
			),
			scenario.Expect(scenario.Waits("large", 1, scenario.Reason{Cause: noDeviceMatches, Entry: "large", Request: "gpu"})),
			scenario.Create(newer),
			scenario.Expect(scenario.Scheduled("large", 1, scenario.EveryDevice("large", hasMemory("80Gi")))),
			scenario.Create(workload.Pod("any-0", "any", onNodesOf(name, templated("any")))),
			scenario.Expect(scenario.Scheduled("any", 1, scenario.EveryDevice("large", hasMemory("80Gi")))),
			scenario.Create(workload.Pod("nothing-left", "nothing-left", onNodesOf(name, templated("any")))),
			scenario.Expect(scenario.Waits("nothing-left", 1, scenario.Reason{Cause: devicesHeld, Entry: "any", Request: "gpu"})),
		},
	}
}

func incompletePool() scenario.Scenario {
	const name = "incomplete-pool"
	completed, incomplete := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	missing := fleet.Part(fleet.LocalSlice(fleet.GPUDriver, completed, fleet.PlainGPUs(completed, 2, 2)...), 1, 2)
	return scenario.Scenario{
		Name:  name,
		Shows: "Pools of which one of two slices is there offer nothing; when the other one comes, the pod runs.",
		Cluster: append(scenario.Nodes(name, 2),
			fleet.Part(fleet.LocalSlice(fleet.GPUDriver, completed, fleet.PlainGPUs(completed, 0, 2)...), 0, 2),
			fleet.Part(fleet.LocalSlice(fleet.GPUDriver, incomplete, fleet.PlainGPUs(incomplete, 0, 2)...), 0, 2)),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("one", workload.Request("gpu", gpus(1))),
				workload.Pod("soon", "soon", onNode(completed, templated("one"))),
				workload.Pod("never", "never", onNode(incomplete, templated("one"))),
			),
			scenario.Expect(
				scenario.Waits("soon", 1, scenario.Reason{Cause: poolIncomplete, Entry: "one", Request: "gpu"}),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolIncomplete, Entry: "one", Request: "gpu"}),
			),
			scenario.Create(missing),
			scenario.Expect(
				scenario.Scheduled("soon", 1, scenario.OnNodes(completed)),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolIncomplete, Entry: "one", Request: "gpu"}),
			),
		},
	}
}

func invalidPool() scenario.Scenario {
	const name = "invalid-pool"
	repaired, invalid := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	// The API server compares names within a slice only.
	twice := func(node string, index int64) runtime.Object {
		return fleet.Part(fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, 2)...), index, 2)
	}
	duplicate := twice(repaired, 1)
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pools in which two slices have devices of the same name offer nothing, until the driver corrects that.",
		Cluster: append(scenario.Nodes(name, 2), twice(repaired, 0), duplicate, twice(invalid, 0), twice(invalid, 1)),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("one", workload.Request("gpu", gpus(1))),
				workload.Pod("soon", "soon", onNode(repaired, templated("one"))),
				workload.Pod("never", "never", onNode(invalid, templated("one"))),
			),
			scenario.Expect(
				scenario.Waits("soon", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
			),
			scenario.Delete(duplicate),
			scenario.Create(fleet.Part(fleet.LocalSlice(fleet.GPUDriver, repaired, fleet.PlainGPUs(repaired, 2, 2)...), 1, 2)),
			scenario.Expect(
				scenario.Scheduled("soon", 1, scenario.OnNodes(repaired)),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
			),
		},
	}
}
