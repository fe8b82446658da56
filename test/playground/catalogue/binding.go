package catalogue

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// Conditions that the driver of fabric devices reports.
const (
	attached     = fleet.FabricDriver + "/attached"
	attachFailed = fleet.FabricDriver + "/attach-failed"
)

// bindingScenarios show devices that get ready only after their allocation (KEP-5007).
func bindingScenarios() []scenario.Scenario {
	return []scenario.Scenario{attachedLate(), attachFails()}
}

// fabricOf returns a pool of devices that all nodes of a scenario reach, and that must be attached to the pod's node
// first.
func fabricOf(scenarioName string, first, count int) *resourceapi.ResourceSlice {
	pool := scenarioName + "-fabric"
	devices := fleet.FabricDevices(pool, first, count)
	for _, device := range devices {
		device.BindsToNode().BindingCondition(attached).BindingFailureCondition(attachFailed)
	}
	return fleet.Slice(fleet.FabricDriver, pool, devices...).OnLabeled(fleet.NodePoolLabel, scenarioName).Obj()
}

// fabricDevice asks for one device of the fabric's driver.
func fabricDevice() *builder.RequestBuilder { return builder.Request("device", fleet.FabricDriver) }

func attachedLate() scenario.Scenario {
	const name = "attached-late"
	node := scenario.NodeName(name, 0)
	return scenario.Scenario{
		Name:  name,
		Shows: "A pod takes a device that is ready; the next ones wait until theirs was attached, two of them for the same.",
		Cluster: append(scenario.Nodes(name, 1), fabricOf(name, 1, 1),
			fleet.LocalSlice(fleet.FabricDriver, node, fleet.FabricDevices(node, 0, 1)...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("ready", fabricDevice()).Obj(),
				builder.AppPod("first", "first", onNodesOf(name, builder.Uses("ready"))),
			),
			scenario.Expect(scenario.Scheduled("first", 1, scenario.DeviceNames("fabric-0"))),
			scenario.Create(
				builder.Claim("late", fabricDevice()).Obj(),
				builder.AppPod("second", "second", onNodesOf(name, builder.Uses("late"))),
				builder.AppPod("third", "third", onNodesOf(name, builder.Uses("late"))),
			),
			scenario.Report("late", attached),
			scenario.Expect(
				scenario.Scheduled("second", 1, scenario.DeviceNames("fabric-1"), scenario.OnNodes(node), scenario.ReservedFor(2)),
				scenario.Scheduled("third", 1, scenario.DeviceNames("fabric-1"), scenario.OnNodes(node)),
			),
		},
	}
}

func attachFails() scenario.Scenario {
	const name = "attach-fails"
	second := scenario.NodeName(name, 1)
	return scenario.Scenario{
		Name:    name,
		Shows:   "A device cannot be attached: the claim is released, and the pod gets a device that is ready meanwhile.",
		Cluster: append(scenario.Nodes(name, 2), fabricOf(name, 0, 1)),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("moves", fabricDevice()).Obj(),
				builder.AppPod("moves", "moves", onNodesOf(name, builder.Uses("moves"))),
			),
			scenario.Expect(scenario.Waits("moves", 1, scenario.Reason{Cause: devicesNotReady})),
			// Without the taint, the pod might try the same device again on the other node.
			scenario.Create(
				fleet.LocalSlice(fleet.FabricDriver, second, fleet.FabricDevices(second, 9, 1)...).Obj(),
				builder.TaintRule(name, fleet.FabricDriver, name+"-fabric", "fabric-0", unhealthyTaint, noSchedule),
			),
			scenario.Report("moves", attachFailed),
			scenario.Expect(scenario.Scheduled("moves", 1, scenario.DeviceNames("fabric-9"), scenario.OnNodes(second))),
		},
	}
}
