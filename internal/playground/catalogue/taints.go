package catalogue

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
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
	unhealthy := func(node string) resourceapi.Device {
		return fleet.Tainted(fleet.PlainGPU(node, 0), unhealthyTaint, "ecc-errors", noSchedule)
	}
	devices := append([]resourceapi.Device{unhealthy(node)}, fleet.PlainGPUs(node, 1, 3)...)
	tolerant := gpus(1)
	tolerant.Tolerations = []resourceapi.DeviceToleration{workload.Tolerate(unhealthyTaint, noSchedule)}
	return scenario.Scenario{
		Name:  name,
		Shows: "A driver tainted the first of four GPUs: only a claim that tolerates the taint gets it.",
		Cluster: append(scenario.Nodes(name, 2),
			fleet.LocalSlice(fleet.GPUDriver, node, devices...),
			fleet.LocalSlice(fleet.GPUDriver, onlyTainted, unhealthy(onlyTainted))),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("healthy", workload.Request("gpu", gpus(1))),
				workload.Deployment("healthy", 3, onNodesOf(name, templated("healthy"))),
				workload.Pod("intolerant", "intolerant", onNode(onlyTainted, templated("healthy"))),
			),
			scenario.Expect(
				scenario.Scheduled("healthy", 3, scenario.DeviceNames("gpu-1", "gpu-2", "gpu-3")),
				scenario.Waits("intolerant", 1, scenario.Reason{Cause: devicesTainted, Entry: "healthy", Request: "gpu"}),
			),
			scenario.Create(
				workload.Claim("tolerant", workload.Request("gpu", tolerant)),
				workload.Pod("tolerant", "tolerant", onNode(node, claimed("tolerant"))),
			),
			scenario.Expect(scenario.Scheduled("tolerant", 1,
				scenario.DeviceNames("gpu-0"), scenario.Tolerates(unhealthyTaint))),
		},
	}
}

func taintRule() scenario.Scenario {
	const name = "taint-rule"
	node := scenario.NodeName(name, 0)
	rule := workload.TaintRule(name, fleet.GPUDriver, node, "", maintenanceTaint, noSchedule)
	pod := func(number int) runtime.Object {
		return workload.Pod(fmt.Sprintf("patient-%d", number), "patient", onNodesOf(name, templated("one")))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "An administrator taints a pool for maintenance; when the rule is removed, pods that waited run.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(rule, workload.Template("one", workload.Request("gpu", gpus(1)))),
			scenario.Create(pod(0), pod(1)),
			scenario.Expect(scenario.Waits("patient", 2, scenario.Reason{Cause: devicesTainted, Entry: "one", Request: "gpu"})),
			scenario.Delete(rule),
			scenario.Expect(scenario.Scheduled("patient", 2, scenario.NoDeviceTwice())),
			scenario.Create(
				workload.TaintRule(name+"-again", fleet.GPUDriver, node, "", maintenanceTaint, noSchedule),
			),
			// A rule without eviction leaves alone what runs.
			scenario.Expect(scenario.Scheduled("patient", 2, scenario.Running())),
		},
	}
}

func taintEviction() scenario.Scenario {
	const name = "taint-eviction"
	node := scenario.NodeName(name, 0)
	rule := workload.TaintRule(name, fleet.GPUDriver, node, "gpu-0", unhealthyTaint, noExecute)
	return scenario.Scenario{
		Name:    name,
		Shows:   "A GPU in use is tainted with NoExecute: its pod is evicted, and the next one gets another GPU.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("one", workload.Request("gpu", gpus(1))),
				workload.Deployment("server", 1, onNodesOf(name, templated("one"))),
			),
			scenario.Expect(scenario.Scheduled("server", 1, scenario.DeviceNames("gpu-0"), scenario.Running())),
			scenario.Create(rule),
			scenario.Expect(scenario.Scheduled("server", 1, scenario.DeviceNames("gpu-1"), scenario.Running())),
			scenario.Create(
				workload.Claim("any", workload.Request("gpu", gpus(1))),
				workload.Pod("blocked", "blocked", onNodesOf(name, claimed("any"))),
			),
			scenario.Expect(scenario.Waits("blocked", 1, scenario.Reason{Cause: devicesTainted, Claim: "any", Request: "gpu"})),
		},
	}
}
