package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// constraintScenarios show constraints between the devices of a claim.
func constraintScenarios() []scenario.Scenario {
	return []scenario.Scenario{matchAttribute(), unmatched(), distinctAttribute(), severalDrivers()}
}

func matchAttribute() scenario.Scenario {
	const name = "pcie-aligned"
	node := scenario.NodeName(name, 0)
	cluster := scenario.Nodes(name, 1)
	// Half of the GPUs have a NIC on their PCIe root, and not those that the
	// driver lists first.
	for _, slice := range fleet.H100Slices(node, 0, 2, 5, 7) {
		cluster = append(cluster, slice.Obj())
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A GPU of an H100 node and an RDMA NIC on the same PCIe root; there are NICs on four of eight roots.",
		Cluster: cluster,
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("gpu-and-nic",
					builder.Request("gpu", fleet.H100Driver),
					builder.Request("nic", fleet.RDMADriver)).
					Match(fleet.PCIeRootAttribute, "gpu", "nic").Template(),
				builder.Deployment("aligned", 4, onNodesOf(name, builder.FromTemplate("gpu-and-nic"))),
			),
			scenario.Expect(scenario.Scheduled("aligned", 4,
				scenario.DevicesEach(2), scenario.OneValueEach(fleet.PCIeRootAttribute), scenario.NoDeviceTwice(), scenario.Running())),
			scenario.Create(
				builder.Claim("gpu-only", builder.Request("gpu", fleet.H100Driver).Count(2)).Template(),
				builder.AppPod("unaligned", "unaligned", onNodesOf(name, builder.FromTemplate("gpu-only"))),
				builder.AppPod("no-nic-left", "no-nic-left", onNodesOf(name, builder.FromTemplate("gpu-and-nic"))),
			),
			scenario.Expect(
				scenario.Scheduled("unaligned", 1, scenario.DevicesEach(2)),
				scenario.Waits("no-nic-left", 1, scenario.Reason{Cause: devicesHeld, Entry: "gpu-and-nic", Request: "nic"}),
			),
		},
	}
}

func unmatched() scenario.Scenario {
	const name = "unmatched-boards"
	apart, together := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	return scenario.Scenario{
		Name:  name,
		Shows: "Two GPUs of one board, where each GPU is on a board of its own; without the constraint both can be had, and another node has such a board.",
		Cluster: append(scenario.Nodes(name, 1),
			fleet.LocalSlice(fleet.GPUDriver, apart, fleet.PlainGPU(apart, 0), fleet.PlainGPU(apart, 2)).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("board", gpus(2)).Match(fleet.GPUDriver+"/board").Obj(),
				builder.AppPod("board", "board", onNodesOf(name, builder.Uses("board"))),
			),
			scenario.Expect(scenario.Waits("board", 1, scenario.Reason{Cause: constraintUnmet, Claim: "board"})),
			scenario.Create(
				builder.Claim("any", gpus(2)).Obj(),
				builder.AppPod("any", "any", onNodesOf(name, builder.Uses("any"))),
			),
			scenario.Expect(scenario.Scheduled("any", 1, scenario.DevicesEach(2))),
			scenario.Create(
				fleet.Node(together, name, nil),
				fleet.LocalSlice(fleet.GPUDriver, together, fleet.PlainGPUs(together, 0, 2)...).Obj(),
			),
			scenario.Expect(scenario.Scheduled("board", 1, scenario.OneValueEach("board"), scenario.OnNodes(together))),
		},
	}
}

func distinctAttribute() scenario.Scenario {
	const name = "distinct-boards"
	perBoard := func(title string, count int64) runtime.Object {
		return builder.Claim(title,
			gpus(count)).
			Distinct(fleet.GPUDriver+"/board", "gpu").Obj()
	}
	pod := func(title string, node int) runtime.Object {
		return builder.AppPod(title, title, onNode(scenario.NodeName(name, node), builder.Uses(title)))
	}
	boards := scenario.DistinctValuesEach("board")
	return scenario.Scenario{
		Name:    name,
		Shows:   "All GPUs of a claim on different boards; a node has four boards of two GPUs.",
		Cluster: gpuNodes(name, 2, 8),
		Steps: []scenario.Step{
			scenario.Create(
				perBoard("four", 4), perBoard("three", 3), perBoard("five", 5),
				pod("four", 0), pod("three", 0), pod("five", 1),
			),
			scenario.Expect(
				scenario.Scheduled("four", 1, scenario.DevicesEach(4), boards),
				scenario.Scheduled("three", 1, scenario.DevicesEach(3), boards),
				scenario.Waits("five", 1, scenario.Reason{Cause: constraintUnmet, Claim: "five"}),
			),
		},
	}
}

func severalDrivers() scenario.Scenario {
	const name, rack = "several-drivers", "several-drivers-rack"
	first, second := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	inRack := map[string]string{fleet.RackLabel: rack}
	pod := func(number int) runtime.Object {
		return builder.AppPod(fmt.Sprintf("mixed-%d", number), "mixed",
			onNodesOf(name, builder.FromTemplate("gpu"), builder.Uses("fabric")))
	}
	return scenario.Scenario{
		Name:  name,
		Shows: "Pods with a GPU of their own and one network-attached device that all of them share.",
		Cluster: []runtime.Object{
			fleet.Node(first, name, inRack),
			fleet.Node(second, name, inRack),
			fleet.LocalSlice(fleet.GPUDriver, first, fleet.PlainGPUs(first, 0, 1)...).Obj(),
			fleet.LocalSlice(fleet.GPUDriver, second, fleet.PlainGPUs(second, 0, 1)...).Obj(),
			fleet.Slice(fleet.FabricDriver, rack, fleet.FabricDevices(rack, 0, 1)...).OnLabeled(fleet.RackLabel, rack).Obj(),
		},
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("gpu", gpus(1)).Template(),
				builder.Claim("fabric", builder.Request("accelerator", fleet.FabricDriver)).Obj(),
				pod(0), pod(1),
			),
			scenario.Expect(scenario.Scheduled("mixed", 2, scenario.DevicesEach(2), scenario.DifferentNodes(), scenario.NoDeviceTwice())),
		},
	}
}
