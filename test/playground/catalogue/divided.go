package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// dividedScenarios show devices that claims share or that are partitioned.
func dividedScenarios() []scenario.Scenario {
	return []scenario.Scenario{sharedNIC(), partitionedGPU()}
}

// share asks for a share of a NIC, with the default size of the driver's policy.
func share() *builder.RequestBuilder { return builder.Request("nic", gpuClass) }

func sharedNIC() scenario.Scenario {
	const name = "shared-nic"
	most := builder.AppPod("most", "most", onNodesOf(name, builder.Uses("most")))
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods share the bandwidth of one NIC until it is used up; what one of them releases, another one gets.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, scenario.NodeName(name, 0), fleet.SharedNIC(scenario.NodeName(name, 0), 0)).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("most", share().Capacity("bandwidth", "280")).Obj(), // 300, by the policy
				builder.Claim("default", share()).Obj(),
				most,
				builder.AppPod("default", "default", onNodesOf(name, builder.Uses("default"))),
			),
			scenario.Expect(
				scenario.Scheduled("most", 1, scenario.Consumes("bandwidth", "300")),
				scenario.Scheduled("default", 1, scenario.Consumes("bandwidth", "50")),
			),
			scenario.Create(
				builder.Claim("late", share().Capacity("bandwidth", "100")).Obj(),
				builder.AppPod("late", "late", onNodesOf(name, builder.Uses("late"))),
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
	part := func(kind string) *builder.RequestBuilder {
		return gpus(1, fmt.Sprintf("%s == %q", gpuAttribute("partition"), kind))
	}
	cluster := scenario.Nodes(name, 1)
	for _, slice := range fleet.PartitionedGPU(fleet.GPUDriver, scenario.NodeName(name, 0)) {
		cluster = append(cluster, slice.Obj())
	}
	half := builder.AppPod("half", "half", onNodesOf(name, builder.Uses("half")))
	var quarters []runtime.Object
	for i := range 2 {
		quarters = append(quarters, builder.AppPod(fmt.Sprintf("quarter-%d", i), "quarter", onNodesOf(name, builder.FromTemplate("quarter"))))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A GPU is used as one half and two quarters; who wants it whole has to wait for all three.",
		Cluster: cluster,
		Steps: []scenario.Step{
			scenario.Create(append(quarters, half,
				builder.Claim("quarter", part("quarter")).Template(),
				builder.Claim("half", part("half")).Obj(),
			)...),
			scenario.Expect(scenario.Scheduled("half", 1), scenario.Scheduled("quarter", 2, scenario.NoDeviceTwice())),
			scenario.Create(
				builder.Claim("whole", part("whole")).Obj(),
				builder.AppPod("whole", "whole", onNodesOf(name, builder.Uses("whole"))),
			),
			scenario.Expect(scenario.Waits("whole", 1, scenario.Reason{Cause: countersUsedUp, Claim: "whole", Request: "gpu"})),
			scenario.Deleted("half"),
			scenario.Deleted("quarter"),
			scenario.Delete(append(quarters, half)...),
			scenario.Expect(scenario.Scheduled("whole", 1, scenario.DeviceNames("whole"))),
		},
	}
}
