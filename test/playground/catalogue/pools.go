package catalogue

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// poolScenarios show complete, incomplete and invalid pools of slices.
func poolScenarios() []scenario.Scenario {
	return []scenario.Scenario{severalSlices(), newerGeneration(), incompletePool(), invalidPool()}
}

func severalSlices() scenario.Scenario {
	const name = "several-slices"
	node := scenario.NodeName(name, 0)
	pod := func(title string, count int64) []runtime.Object {
		return []runtime.Object{
			builder.Claim(title, gpus(count)).Obj(),
			builder.AppPod(title, title, onNodesOf(name, builder.Uses(title))),
		}
	}
	return scenario.Scenario{
		Name:  name,
		Shows: "A pool published in two slices of four GPUs; a claim takes devices from both.",
		Cluster: append(scenario.Nodes(name, 1),
			fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, 4)...).Part(0, 2).Obj(),
			fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 4, 4)...).Part(1, 2).Obj()),
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
	old := fleet.LocalSlice(fleet.GPUDriver, node, fleet.SmallPlainGPUs(node, 0, 2)...).Generation(1).Obj()
	newer := fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 10, 2)...).Generation(2).Obj()
	return scenario.Scenario{
		Name:    name,
		Shows:   "A driver publishes its pool again with other GPUs: those of the older generation are gone, although their slice still exists.",
		Cluster: append(scenario.Nodes(name, 1), old),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("large", gpus(1, gpuMemory+`.compareTo(quantity("80Gi")) >= 0`)).Template(),
				builder.Claim("any", gpus(1)).Template(),
				builder.AppPod("large", "large", onNodesOf(name, builder.FromTemplate("large"))),
			),
			scenario.Expect(scenario.Waits("large", 1, scenario.Reason{Cause: noDeviceMatches, Entry: "large", Request: "gpu"})),
			scenario.Create(newer),
			scenario.Expect(scenario.Scheduled("large", 1, scenario.EveryDevice("large", hasMemory("80Gi")))),
			scenario.Create(builder.AppPod("any-0", "any", onNodesOf(name, builder.FromTemplate("any")))),
			scenario.Expect(scenario.Scheduled("any", 1, scenario.EveryDevice("large", hasMemory("80Gi")))),
			scenario.Create(builder.AppPod("nothing-left", "nothing-left", onNodesOf(name, builder.FromTemplate("any")))),
			scenario.Expect(scenario.Waits("nothing-left", 1, scenario.Reason{Cause: devicesHeld, Entry: "any", Request: "gpu"})),
		},
	}
}

func incompletePool() scenario.Scenario {
	const name = "incomplete-pool"
	completed, incomplete := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	missing := fleet.LocalSlice(fleet.GPUDriver, completed, fleet.PlainGPUs(completed, 2, 2)...).Part(1, 2).Obj()
	return scenario.Scenario{
		Name:  name,
		Shows: "A pool with one of its two slices offers nothing; when the other one comes, the pod runs.",
		Cluster: append(scenario.Nodes(name, 2),
			fleet.LocalSlice(fleet.GPUDriver, completed, fleet.PlainGPUs(completed, 0, 2)...).Part(0, 2).Obj(),
			fleet.LocalSlice(fleet.GPUDriver, incomplete, fleet.PlainGPUs(incomplete, 0, 2)...).Part(0, 2).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("one", gpus(1)).Template(),
				builder.AppPod("soon", "soon", onNode(completed, builder.FromTemplate("one"))),
				builder.AppPod("never", "never", onNode(incomplete, builder.FromTemplate("one"))),
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
	repaired, invalid, valid := scenario.NodeName(name, 0), scenario.NodeName(name, 1), scenario.NodeName(name, 2)
	// The API server compares names within a slice only.
	twice := func(node string, index int64) runtime.Object {
		return fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, 2)...).Part(index, 2).Obj()
	}
	duplicate := twice(repaired, 1)
	return scenario.Scenario{
		Name:  name,
		Shows: "Pools in which two slices have devices of the same name offer nothing, until the driver corrects that; a valid pool beside them is not affected.",
		Cluster: append(scenario.Nodes(name, 3), twice(repaired, 0), duplicate, twice(invalid, 0), twice(invalid, 1),
			fleet.LocalSlice(fleet.GPUDriver, valid, fleet.PlainGPU(valid, 0)).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("one", gpus(1)).Template(),
				builder.AppPod("soon", "soon", onNode(repaired, builder.FromTemplate("one"))),
				builder.AppPod("never", "never", onNode(invalid, builder.FromTemplate("one"))),
				builder.AppPod("beside", "beside", onNodesOf(name, builder.FromTemplate("one"))),
			),
			scenario.Expect(
				scenario.Scheduled("beside", 1, scenario.OnNodes(valid)),
				scenario.Waits("soon", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
			),
			scenario.Delete(duplicate),
			scenario.Create(fleet.LocalSlice(fleet.GPUDriver, repaired, fleet.PlainGPUs(repaired, 2, 2)...).Part(1, 2).Obj()),
			scenario.Expect(
				scenario.Scheduled("soon", 1, scenario.OnNodes(repaired)),
				scenario.Waits("never", 1, scenario.Reason{Cause: poolInvalid, Entry: "one", Request: "gpu"}),
			),
		},
	}
}
