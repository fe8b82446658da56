package catalogue

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// sharingScenarios show claims with several consumers, admin access, and configuration for the driver.
func sharingScenarios() []scenario.Scenario {
	return []scenario.Scenario{sharedClaim(), sharedClaimElsewhere(), adminAccess(), configuration()}
}

func sharedClaim() scenario.Scenario {
	const name, consumers = "shared-claim", 8
	objects := []runtime.Object{builder.Claim("shared", gpus(1)).Obj()}
	for index := range consumers {
		objects = append(objects, builder.AppPod(fmt.Sprintf("consumer-%d", index), "consumer", onNodesOf(name, builder.Uses("shared"))))
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
				builder.Claim("shared", gpus(1)).Obj(),
				builder.AppPod("here", "here", onNode(first, builder.Uses("shared"))),
			),
			scenario.Expect(scenario.Scheduled("here", 1, scenario.OnNodes(first))),
			scenario.Create(
				builder.AppPod("there", "there", onNode(second, builder.Uses("shared"))),
				builder.AppPod("follows", "follows", onNodesOf(name, builder.Uses("shared"))),
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
	first := builder.AppPod("user-0", "first", onNodesOf(name, builder.FromTemplate("one")))
	return scenario.Scenario{
		Name:            name,
		Shows:           "A monitor sees all GPUs of a node although they are in use, and takes none away.",
		NamespaceLabels: map[string]string{"resource.kubernetes.io/admin-access": "true"},
		Cluster:         gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("one", gpus(1)).Template(),
				first,
			),
			scenario.Expect(scenario.Scheduled("first", 1, scenario.DeviceNames("gpu-0"))),
			scenario.Create(
				builder.Claim("all", builder.Request("gpu", gpuClass).All().Admin()).Obj(),
				builder.AppPod("monitor", "monitor", onNodesOf(name, builder.Uses("all"))),
			),
			scenario.Expect(scenario.Scheduled("monitor", 1,
				scenario.DevicesEach(2), scenario.AdminAccess(true), scenario.DeviceNames("gpu-0", "gpu-1"))),
			scenario.Create(builder.AppPod("user-1", "second", onNodesOf(name, builder.FromTemplate("one")))),
			scenario.Expect(scenario.Scheduled("second", 1, scenario.AdminAccess(false), scenario.DeviceNames("gpu-1"))),
			scenario.Create(builder.AppPod("late", "late", onNodesOf(name, builder.FromTemplate("one")))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld, Entry: "one", Request: "gpu"})),
			scenario.Deleted("first"),
			scenario.Delete(first),
			scenario.Expect(scenario.Scheduled("late", 1, scenario.AdminAccess(false), scenario.DeviceNames("gpu-0"))),
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
	class := builder.WithConfig(builder.Class(exclusive, builder.OfDriver(fleet.GPUDriver)), fleet.GPUDriver, ofClass)
	request := func() *builder.RequestBuilder { return builder.Request("gpu", exclusive) }
	entry := func(source resourceapi.AllocationConfigSource, parameters string, requests ...string) scenario.ConfigEntry {
		return scenario.ConfigEntry{Source: source, Requests: requests, Driver: fleet.GPUDriver, Parameters: parameters}
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "Parameters for the driver, from the class and from the claim, arrive in the allocation.",
		Cluster: append(gpuNodes(name, 1, 4), class),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("plain", request()).Obj(),
				builder.Claim("capped", request()).Config(fleet.GPUDriver, powerCap).Obj(),
				builder.Claim("roles", request().Named("prefill"), gpus(1).Named("decode")).
					Config(fleet.GPUDriver, decodeRole, "decode").Obj(),
				builder.AppPod("plain", "plain", onNodesOf(name, builder.Uses("plain"))),
				builder.AppPod("capped", "capped", onNodesOf(name, builder.Uses("capped"))),
				builder.AppPod("roles", "roles", onNodesOf(name, builder.Uses("roles"))),
			),
			// An entry for all requests of a claim names none of them.
			scenario.Expect(
				scenario.Scheduled("plain", 1, scenario.Configs(entry(fromClass, ofClass))),
				scenario.Scheduled("capped", 1, scenario.Configs(entry(fromClass, ofClass), entry(fromClaim, powerCap))),
				scenario.Scheduled("roles", 1, scenario.Configs(
					entry(fromClass, ofClass, "prefill"), entry(fromClaim, decodeRole, "decode"))),
			),
		},
	}
}
