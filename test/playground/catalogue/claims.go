package catalogue

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// claimScenarios show the life of claims from creation to deallocation.
func claimScenarios() []scenario.Scenario {
	return []scenario.Scenario{
		namedClaims(), templateDeployment(), templateJob(), freedDevices(), podsWithoutClaims(),
	}
}

func namedClaims() scenario.Scenario {
	const name = "named-claims"
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods name claims that exist, each its own; one pod uses two.",
		Cluster: gpuNodes(name, 1, 8),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("first", gpus(2)).Obj(),
				builder.Claim("second", gpus(2)).Obj(),
				builder.Claim("left", gpus(1)).Obj(),
				builder.Claim("right", gpus(3)).Obj(),
				builder.AppPod("first", "single", onNodesOf(name, builder.Uses("first"))),
				builder.AppPod("second", "single", onNodesOf(name, builder.Uses("second"))),
				builder.AppPod("both", "both", onNodesOf(name, builder.Uses("left"), builder.Uses("right"))),
			),
			scenario.Expect(
				scenario.Scheduled("single", 2, scenario.DevicesEach(2), scenario.NoDeviceTwice(), scenario.ReservedFor(1), scenario.Running()),
				scenario.Scheduled("both", 1, scenario.DevicesEach(4), scenario.ReservedFor(1), scenario.ReachableFrom("metadata.name", name+"-0")),
			),
		},
	}
}

func templateDeployment() scenario.Scenario {
	const name = "template-deployment"
	return scenario.Scenario{
		Name:    name,
		Shows:   "Each replica of a Deployment gets a claim of its own from a template.",
		Cluster: gpuNodes(name, 2, 4),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("pair", gpus(2)).Template(),
				builder.Deployment("server", 4, onNodesOf(name, builder.FromTemplate("pair"))),
			),
			scenario.Expect(scenario.Scheduled("server", 4,
				scenario.DevicesEach(2), scenario.NoDeviceTwice(), scenario.ReservedFor(1), scenario.Running())),
		},
	}
}

func templateJob() scenario.Scenario {
	const name = "template-job"
	return scenario.Scenario{
		Name:    name,
		Shows:   "Six pods of a Job share four GPUs in pairs: who waits is woken by those that finish.",
		Cluster: gpuNodes(name, 1, 4),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("pair", gpus(2)).Template(),
				builder.Job("batch", 6, onNodesOf(name, builder.FromTemplate("pair"))),
			),
			scenario.Expect(scenario.Scheduled("batch", 6, scenario.Succeeded())),
		},
	}
}

func freedDevices() scenario.Scenario {
	const name = "freed-devices"
	// Numbers that no other scenario asks for by name or expects: the scheduler learns which devices are asked for, and
	// spares them.
	node := scenario.NodeName(name, 0)
	gpu := func(claim, index string) *resourceapi.ResourceClaim {
		return builder.Claim(claim, gpus(1, gpuAttribute("index")+" == "+index)).Obj()
	}
	secondClaim := gpu("held-9", "9")
	secondHolder := builder.AppPod("holder-9", "holder-9", onNodesOf(name, builder.Uses("held-9")))
	return scenario.Scenario{
		Name:    name,
		Shows:   "Two pods wait for a GPU each; when one GPU is freed, the pod that wants it gets it.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 8, 2)...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				gpu("held-8", "8"), secondClaim,
				builder.AppPod("holder-8", "holder-8", onNodesOf(name, builder.Uses("held-8"))), secondHolder,
			),
			scenario.Expect(scenario.Scheduled("holder-8", 1), scenario.Scheduled("holder-9", 1)),
			scenario.Create(
				gpu("wants-8", "8"), gpu("wants-9", "9"),
				builder.AppPod("waiter-8", "waiter-8", onNodesOf(name, builder.Uses("wants-8"))),
				builder.AppPod("waiter-9", "waiter-9", onNodesOf(name, builder.Uses("wants-9"))),
			),
			scenario.Expect(
				scenario.Waits("waiter-8", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-8", Request: "gpu"}),
				scenario.Waits("waiter-9", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-9", Request: "gpu"}),
			),
			scenario.Deleted("holder-9"),
			scenario.Delete(secondHolder, secondClaim),
			scenario.Expect(
				scenario.Scheduled("waiter-9", 1, scenario.DeviceNames("gpu-9")),
				scenario.Waits("waiter-8", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-8", Request: "gpu"}),
			),
		},
	}
}

func podsWithoutClaims() scenario.Scenario {
	const name = "no-claims"
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods without claims are scheduled as without Quartermaster, also beside devices.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				builder.AppPod("pinned", "plain", onNodesOf(name)),
				builder.AppPod("free", "plain"),
			),
			scenario.Expect(scenario.Scheduled("plain", 2, scenario.DevicesEach(0), scenario.Running())),
		},
	}
}
