package catalogue

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// selectorScenarios show the selection of devices by CEL expressions.
func selectorScenarios() []scenario.Scenario {
	return []scenario.Scenario{classSelectors(), requestSelectors()}
}

func classSelectors() scenario.Scenario {
	const name, large, small = "class-selectors", "gpu-large", "gpu-small"
	node := scenario.NodeName(name, 0)
	devices := append(fleet.PlainGPUs(node, 0, 4), fleet.SmallPlainGPUs(node, 4, 4)...)
	largeClass := builder.Class(large, builder.OfDriver(fleet.GPUDriver),
		gpuMemory+`.compareTo(quantity("80Gi")) >= 0`)
	smallClass := builder.Class(small,
		builder.OfDriver(fleet.GPUDriver)+" && "+gpuMemory+`.compareTo(quantity("80Gi")) < 0`)
	return scenario.Scenario{
		Name:  name,
		Shows: "Two classes divide the GPUs of a node by their memory.",
		Cluster: append(scenario.Nodes(name, 1), largeClass, smallClass,
			fleet.LocalSlice(fleet.GPUDriver, node, devices...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim(large, builder.Request("gpu", large).Count(2)).Template(),
				builder.Claim(small, builder.Request("gpu", small).Count(2)).Template(),
				builder.Deployment(large, 2, onNodesOf(name, builder.FromTemplate(large))),
				builder.Deployment(small, 2, onNodesOf(name, builder.FromTemplate(small))),
			),
			scenario.Expect(
				scenario.Scheduled(large, 2, scenario.NoDeviceTwice(), scenario.EveryDevice("large", hasMemory("80Gi"))),
				scenario.Scheduled(small, 2, scenario.NoDeviceTwice(), scenario.EveryDevice("small", hasMemory("40Gi"))),
			),
		},
	}
}

func hasMemory(quantity string) func(*resourceapi.Device) bool {
	want := resource.MustParse(quantity)
	return func(device *resourceapi.Device) bool {
		memory := device.Capacity["memory"].Value
		return memory.Cmp(want) == 0
	}
}

func requestSelectors() scenario.Scenario {
	const name = "request-selectors"
	node := scenario.NodeName(name, 0)
	devices := fleet.PlainGPUs(node, 0, 8)
	for index := 4; index < len(devices); index++ {
		devices[index].Attr("driverVersion", builder.Version("2.1.0"))
	}
	newer := gpuAttribute("driverVersion") + `.isGreaterThan(semver("2.0.0"))`
	claim := func(title string, where ...string) *resourceapi.ResourceClaim {
		return builder.Claim(title, gpus(1, where...)).Obj()
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "Requests choose by attribute, version and capacity; all of their expressions have to hold.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, node, devices...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				claim("by-index", gpuAttribute("index")+" == 2"),
				claim("by-version", newer),
				claim("by-both", newer, gpuAttribute("index")+" in [1, 7]"),
				claim("by-memory", gpuMemory+`.isGreaterThan(quantity("100Gi"))`),
				builder.AppPod("by-index", "by-index", onNodesOf(name, builder.Uses("by-index"))),
				builder.AppPod("by-version", "by-version", onNodesOf(name, builder.Uses("by-version"))),
				builder.AppPod("by-both", "by-both", onNodesOf(name, builder.Uses("by-both"))),
				builder.AppPod("by-memory", "by-memory", onNodesOf(name, builder.Uses("by-memory"))),
			),
			scenario.Expect(
				scenario.Scheduled("by-index", 1, scenario.DeviceNames("gpu-2")),
				scenario.Scheduled("by-version", 1, scenario.EveryDevice("of version 2.1.0", func(device *resourceapi.Device) bool {
					return *device.Attributes["driverVersion"].VersionValue == "2.1.0"
				})),
				scenario.Scheduled("by-both", 1, scenario.DeviceNames("gpu-7")),
				scenario.Waits("by-memory", 1, scenario.Reason{Cause: noDeviceMatches, Claim: "by-memory", Request: "gpu"}),
			),
		},
	}
}
