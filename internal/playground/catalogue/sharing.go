package catalogue

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// sharingScenarios show claims with several consumers, devices that are seen
// by administrators, and what the driver is told.
func sharingScenarios() []scenario.Scenario {
	return []scenario.Scenario{sharedClaim(), sharedClaimElsewhere(), adminAccess(), configuration()}
}

func sharedClaim() scenario.Scenario {
	const name, consumers = "shared-claim", 8
	objects := []runtime.Object{workload.Claim("shared", workload.Request("gpu", gpus(1)))}
	for index := range consumers {
		objects = append(objects, workload.Pod(fmt.Sprintf("consumer-%d", index), "consumer", onNodesOf(name, claimed("shared"))))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "Eight pods use one claim: it is allocated once and reserved for all of them.",
		Cluster: gpuNodes(name, 2, 1),
		Steps: []scenario.Step{
			scenario.Create(objects...),
			scenario.Expect(scenario.Scheduled("consumer", consumers,
				scenario.SameDevices(), scenario.ReservedFor(consumers), scenario.DevicesEach(1))),
		},
	}
}

func sharedClaimElsewhere() scenario.Scenario {
	const name = "shared-elsewhere"
	first, second := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	return scenario.Scenario{
		Name:    name,
		Shows:   "A claim was allocated on one node; a pod that has to run on another cannot use it.",
		Cluster: gpuNodes(name, 2, 1),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("shared", workload.Request("gpu", gpus(1))),
				workload.Pod("here", "here", onNode(first, claimed("shared"))),
			),
			scenario.Expect(scenario.Scheduled("here", 1, scenario.OnNodes(first))),
			scenario.Create(
				workload.Pod("there", "there", onNode(second, claimed("shared"))),
				workload.Pod("follows", "follows", onNodesOf(name, claimed("shared"))),
			),
			scenario.Expect(
				scenario.Scheduled("here", 1, scenario.ReservedFor(2)),
				scenario.Scheduled("follows", 1, scenario.OnNodes(first)),
				scenario.Waits("there", 1, scenario.Reason{Cause: notReachable, Claim: "shared"}),
			),
		},
	}
}

func adminAccess() scenario.Scenario {
	const name = "admin-access"
	return scenario.Scenario{
		Name:            name,
		Shows:           "A monitor sees all GPUs of a node although they are in use, and takes none away.",
		NamespaceLabels: map[string]string{"resource.kubernetes.io/admin-access": "true"},
		Cluster:         gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("one", workload.Request("gpu", gpus(1))),
				workload.Pod("user-0", "user", onNodesOf(name, templated("one"))),
			),
			scenario.Expect(scenario.Scheduled("user", 1)),
			scenario.Create(
				workload.Claim("all", workload.Request("gpu", workload.Devices{Class: gpuClass, All: true, Admin: true})),
				workload.Pod("monitor", "monitor", onNodesOf(name, claimed("all"))),
			),
			scenario.Expect(scenario.Scheduled("monitor", 1,
				scenario.DevicesEach(2), scenario.AdminAccess(true), scenario.DeviceNames("gpu-0", "gpu-1"))),
			scenario.Create(workload.Pod("user-1", "user", onNodesOf(name, templated("one")))),
			scenario.Expect(scenario.Scheduled("user", 2,
				scenario.NoDeviceTwice(), scenario.AdminAccess(false), scenario.DeviceNames("gpu-0", "gpu-1"))),
			scenario.Create(workload.Pod("late", "late", onNodesOf(name, templated("one")))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld, Entry: "one", Request: "gpu"})),
		},
	}
}

func configuration() scenario.Scenario {
	const (
		name       = "configuration"
		exclusive  = "gpu-exclusive"
		ofClass    = `{"sharing":"exclusive"}`
		powerCap   = `{"powerCapWatts":300}`
		decodeRole = `{"role":"decode"}`

		fromClass = resourceapi.AllocationConfigSourceClass
		fromClaim = resourceapi.AllocationConfigSourceClaim
	)
	class := workload.WithConfig(workload.Class(exclusive, workload.OfDriver(fleet.GPUDriver)), fleet.GPUDriver, ofClass)
	devices := workload.Devices{Class: exclusive, Count: 1}
	entry := func(source resourceapi.AllocationConfigSource, parameters string, requests ...string) scenario.ConfigEntry {
		return scenario.ConfigEntry{Source: source, Requests: requests, Driver: fleet.GPUDriver, Parameters: parameters}
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "Parameters for the driver, from the class and from the claim, arrive in the allocation.",
		Cluster: append(gpuNodes(name, 1, 4), class),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("plain", workload.Request("gpu", devices)),
				workload.Claim("capped", workload.Request("gpu", devices), workload.Config(fleet.GPUDriver, powerCap)),
				workload.Claim("roles", workload.Request("prefill", devices), workload.Request("decode", gpus(1)),
					workload.Config(fleet.GPUDriver, decodeRole, "decode")),
				workload.Pod("plain", "plain", onNodesOf(name, claimed("plain"))),
				workload.Pod("capped", "capped", onNodesOf(name, claimed("capped"))),
				workload.Pod("roles", "roles", onNodesOf(name, claimed("roles"))),
			),
			// An entry that is for all requests of a claim names none of them.
			scenario.Expect(
				scenario.Scheduled("plain", 1, scenario.Configs(entry(fromClass, ofClass))),
				scenario.Scheduled("capped", 1, scenario.Configs(entry(fromClass, ofClass), entry(fromClaim, powerCap))),
				scenario.Scheduled("roles", 1, scenario.Configs(
					entry(fromClass, ofClass, "prefill"), entry(fromClaim, decodeRole, "decode"))),
			),
		},
	}
}
