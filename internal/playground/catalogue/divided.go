package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// dividedScenarios show devices of which claims get a part.
func dividedScenarios() []scenario.Scenario {
	return []scenario.Scenario{sharedNIC(), partitionedGPU()}
}

// share asks for a share of a device; "" leaves the amount to the driver's policy.
func share(bandwidth string) workload.Devices {
	devices := gpus(1)
	if bandwidth != "" {
		devices.Capacity = map[string]string{"bandwidth": bandwidth}
	}
	return devices
}

func sharedNIC() scenario.Scenario {
	const name = "shared-nic"
	most := workload.Pod("most", "most", onNodesOf(name, claimed("most")))
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods share the bandwidth of one NIC until it is used up; what one of them releases, another one gets.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, scenario.NodeName(name, 0), fleet.SharedNIC(scenario.NodeName(name, 0), 0))),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("most", workload.Request("nic", share("280"))), // 300, by the policy
				workload.Claim("default", workload.Request("nic", share(""))),
				most,
				workload.Pod("default", "default", onNodesOf(name, claimed("default"))),
			),
			scenario.Expect(
				scenario.Scheduled("most", 1, scenario.Consumes("bandwidth", "300")),
				scenario.Scheduled("default", 1, scenario.Consumes("bandwidth", "50")),
			),
			scenario.Create(
				workload.Claim("late", workload.Request("nic", share("100"))),
				workload.Pod("late", "late", onNodesOf(name, claimed("late"))),
			),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: capacityUsedUp, Claim: "late", Request: "nic"})),
			scenario.Deleted("most"),
			scenario.Delete(most),
			scenario.Expect(scenario.Scheduled("late", 1, scenario.Consumes("bandwidth", "100"), scenario.DeviceNames("nic-0"))),
		},
	}
}

func partitionedGPU() scenario.Scenario {
	const name = "partitioned-gpu"
	part := func(kind string) workload.Devices {
		return gpus(1, fmt.Sprintf("%s == %q", gpuAttribute("partition"), kind))
	}
	cluster := scenario.Nodes(name, 1)
	for _, slice := range fleet.PartitionedGPU(fleet.GPUDriver, scenario.NodeName(name, 0)) {
		cluster = append(cluster, slice)
	}
	half := workload.Pod("half", "half", onNodesOf(name, claimed("half")))
	var quarters []runtime.Object
	for i := range 2 {
		quarters = append(quarters, workload.Pod(fmt.Sprintf("quarter-%d", i), "quarter", onNodesOf(name, templated("quarter"))))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A GPU is used as one half and two quarters; who wants it whole has to wait for all three.",
		Cluster: cluster,
		Steps: []scenario.Step{
			scenario.Create(append(quarters, half,
				workload.Template("quarter", workload.Request("gpu", part("quarter"))),
				workload.Claim("half", workload.Request("gpu", part("half"))),
			)...),
			scenario.Expect(scenario.Scheduled("half", 1), scenario.Scheduled("quarter", 2, scenario.NoDeviceTwice())),
			scenario.Create(
				workload.Claim("whole", workload.Request("gpu", part("whole"))),
				workload.Pod("whole", "whole", onNodesOf(name, claimed("whole"))),
			),
			scenario.Expect(scenario.Waits("whole", 1, scenario.Reason{Cause: countersUsedUp, Claim: "whole", Request: "gpu"})),
			scenario.Deleted("half"),
			scenario.Deleted("quarter"),
			scenario.Delete(append(quarters, half)...),
			scenario.Expect(scenario.Scheduled("whole", 1, scenario.DeviceNames("whole"))),
		},
	}
}
