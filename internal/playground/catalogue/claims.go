package catalogue

import (
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// claimScenarios show where claims come from and where they go.
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
				workload.Claim("first", workload.Request("gpu", gpus(2))),
				workload.Claim("second", workload.Request("gpu", gpus(2))),
				workload.Claim("left", workload.Request("gpu", gpus(1))),
				workload.Claim("right", workload.Request("gpu", gpus(3))),
				workload.Pod("first", "single", onNodesOf(name, claimed("first"))),
				workload.Pod("second", "single", onNodesOf(name, claimed("second"))),
				workload.Pod("both", "both", onNodesOf(name, claimed("left"), claimed("right"))),
			),
			scenario.Expect(
				scenario.Scheduled("single", 2, scenario.DevicesEach(2), scenario.NoDeviceTwice(), scenario.ReservedFor(1), scenario.Running()),
				scenario.Scheduled("both", 1, scenario.DevicesEach(4), scenario.ReachableFrom("metadata.name", name+"-0")),
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
				workload.Template("pair", workload.Request("gpu", gpus(2))),
				workload.Deployment("server", 4, onNodesOf(name, templated("pair"))),
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
				workload.Template("pair", workload.Request("gpu", gpus(2))),
				workload.Job("batch", 6, onNodesOf(name, templated("pair"))),
			),
			scenario.Expect(scenario.Scheduled("batch", 6, scenario.Succeeded())),
		},
	}
}

func freedDevices() scenario.Scenario {
	const name = "freed-devices"
	gpu := func(index string) workload.ClaimPart {
		return workload.Request("gpu", gpus(1, gpuAttribute("index")+" == "+index))
	}
	holder := func(index string) workload.Use { return claimed("held-" + index) }
	secondHolder := workload.Pod("holder-1", "holder-1", onNodesOf(name, holder("1")))
	secondClaim := workload.Claim("held-1", gpu("1"))
	return scenario.Scenario{
		Name:    name,
		Shows:   "Two pods wait for a GPU each; when one GPU is freed, the pod that wants it gets it.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("held-0", gpu("0")), secondClaim,
				workload.Pod("holder-0", "holder-0", onNodesOf(name, holder("0"))), secondHolder,
			),
			scenario.Expect(scenario.Scheduled("holder-0", 1), scenario.Scheduled("holder-1", 1)),
			scenario.Create(
				workload.Claim("wants-0", gpu("0")), workload.Claim("wants-1", gpu("1")),
				workload.Pod("waiter-0", "waiter-0", onNodesOf(name, claimed("wants-0"))),
				workload.Pod("waiter-1", "waiter-1", onNodesOf(name, claimed("wants-1"))),
			),
			scenario.Expect(
				scenario.Waits("waiter-0", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-0", Request: "gpu"}),
				scenario.Waits("waiter-1", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-1", Request: "gpu"}),
			),
			scenario.Deleted("holder-1"),
			scenario.Delete(secondHolder, secondClaim),
			scenario.Expect(
				scenario.Scheduled("waiter-1", 1, scenario.DeviceNames("gpu-1")),
				scenario.Waits("waiter-0", 1, scenario.Reason{Cause: devicesHeld, Claim: "wants-0", Request: "gpu"}),
			),
		},
	}
}

func podsWithoutClaims() scenario.Scenario {
	const name = "no-claims"
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods without claims are scheduled as ever, also beside devices.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Pod("pinned", "plain", onNodesOf(name)),
				workload.Pod("free", "plain", anywhere()),
			),
			scenario.Expect(scenario.Scheduled("plain", 2, scenario.DevicesEach(0), scenario.Running())),
		},
	}
}
