package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

const (
	unhealthyTaint   = "example.com/unhealthy"
	maintenanceTaint = "example.com/maintenance"
)

// taintScenarios show devices that are tainted by their driver or by a rule.
func taintScenarios() []scenario.Scenario {
	return []scenario.Scenario{taintedDevice(), taintRule(), taintEviction()}
}

func taintedDevice() scenario.Scenario {
	const name = "tainted-device"
	node, onlyTainted := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	unhealthy := func(node string) *builder.DeviceBuilder {
		return fleet.PlainGPU(node, 0).Taint(unhealthyTaint, noSchedule)
	}
	devices := append([]*builder.DeviceBuilder{unhealthy(node)}, fleet.PlainGPUs(node, 1, 3)...)
	return scenario.Scenario{
		Name:  name,
		Shows: "A driver tainted the first of four GPUs: only a claim that tolerates the taint gets it.",
		Cluster: append(scenario.Nodes(name, 2),
			fleet.LocalSlice(fleet.GPUDriver, node, devices...).Obj(),
			fleet.LocalSlice(fleet.GPUDriver, onlyTainted, unhealthy(onlyTainted)).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("healthy", gpus(1)).Template(),
				builder.Deployment("healthy", 3, onNodesOf(name, builder.FromTemplate("healthy"))),
				builder.AppPod("intolerant", "intolerant", onNode(onlyTainted, builder.FromTemplate("healthy"))),
			),
			scenario.Expect(
				scenario.Scheduled("healthy", 3, scenario.DeviceNames("gpu-1", "gpu-2", "gpu-3")),
				scenario.Waits("intolerant", 1, scenario.Reason{Cause: devicesTainted, Entry: "healthy", Request: "gpu"}),
			),
			scenario.Create(
				builder.Claim("tolerant", gpus(1).Tolerate(unhealthyTaint, noSchedule)).Obj(),
				builder.AppPod("tolerant", "tolerant", onNode(node, builder.Uses("tolerant"))),
			),
			scenario.Expect(scenario.Scheduled("tolerant", 1,
				scenario.DeviceNames("gpu-0"), scenario.Tolerates(unhealthyTaint))),
		},
	}
}

func taintRule() scenario.Scenario {
	const name = "taint-rule"
	node, other := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	rule := builder.TaintRule(name, fleet.GPUDriver, node, "", maintenanceTaint, noSchedule)
	again := builder.TaintRule(name+"-again", fleet.GPUDriver, node, "", maintenanceTaint, noSchedule)
	pod := func(number int) runtime.Object {
		return builder.AppPod(fmt.Sprintf("patient-%d", number), "patient", onNode(node, builder.FromTemplate("one")))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "An administrator taints a pool for maintenance; when the rule is removed, pods that waited run.",
		Cluster: gpuNodes(name, 2, 3),
		Steps: []scenario.Step{
			scenario.Create(rule, builder.Claim("one", gpus(1)).Template()),
			scenario.Create(pod(0), pod(1)),
			scenario.Expect(scenario.Waits("patient", 2, scenario.Reason{Cause: devicesTainted, Entry: "one", Request: "gpu"})),
			scenario.Delete(rule),
			scenario.Expect(scenario.Scheduled("patient", 2, scenario.NoDeviceTwice())),
			// A rule without eviction does not affect running pods, but keeps others away.
			scenario.Create(again),
			scenario.Create(
				builder.AppPod("late", "late", onNode(node, builder.FromTemplate("one"))),
				builder.AppPod("elsewhere", "elsewhere", onNodesOf(name, builder.FromTemplate("one"))),
			),
			scenario.Expect(
				scenario.Scheduled("patient", 2, scenario.Running()),
				scenario.Scheduled("elsewhere", 1, scenario.OnNodes(other)),
				scenario.Waits("late", 1, scenario.Reason{Cause: devicesTainted, Entry: "one", Request: "gpu"}),
			),
			scenario.Delete(again),
			scenario.Expect(scenario.Scheduled("late", 1, scenario.OnNodes(node))),
		},
	}
}

func taintEviction() scenario.Scenario {
	const name = "taint-eviction"
	node := scenario.NodeName(name, 0)
	rule := builder.TaintRule(name, fleet.GPUDriver, node, "gpu-0", unhealthyTaint, noExecute)
	return scenario.Scenario{
		Name:    name,
		Shows:   "A GPU in use is tainted with NoExecute: its pod is evicted, and the next one gets another GPU.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("one", gpus(1)).Template(),
				builder.Deployment("server", 1, onNodesOf(name, builder.FromTemplate("one"))),
			),
			scenario.Expect(scenario.Scheduled("server", 1, scenario.DeviceNames("gpu-0"), scenario.Running())),
			scenario.Create(rule),
			scenario.Expect(scenario.Scheduled("server", 1, scenario.DeviceNames("gpu-1"), scenario.Running())),
			scenario.Create(
				builder.Claim("any", gpus(1)).Obj(),
				builder.AppPod("blocked", "blocked", onNodesOf(name, builder.Uses("any"))),
			),
			scenario.Expect(scenario.Waits("blocked", 1, scenario.Reason{Cause: devicesTainted, Claim: "any", Request: "gpu"})),
			scenario.Create(
				builder.Claim("tolerant", gpus(1).Tolerate(unhealthyTaint, noExecute)).Obj(),
				builder.AppPod("tolerant", "tolerant", onNodesOf(name, builder.Uses("tolerant"))),
			),
			scenario.Expect(scenario.Scheduled("tolerant", 1, scenario.DeviceNames("gpu-0"), scenario.Tolerates(unhealthyTaint))),
		},
	}
}
