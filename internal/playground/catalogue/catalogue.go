package catalogue

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// Short names for what nearly every scenario says.
const (
	gpuClass = fleet.GPUDriver

	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
	noExecute  = resourceapi.DeviceTaintEffectNoExecute
)

// Scenarios returns all scenarios, in the order of the demo's table. The
// objects in them are new with every call.
func Scenarios() []scenario.Scenario {
	return slices.Concat(
		claimScenarios(),
		sharingScenarios(),
		requestScenarios(),
		selectorScenarios(),
		constraintScenarios(),
		taintScenarios(),
		bindingScenarios(),
		gangScenarios(),
		dividedScenarios(),
		poolScenarios(),
		reachScenarios(),
		extendedScenarios(),
		badInputScenarios(),
		badReferenceScenarios(),
	)
}

// Classes are the device classes that several scenarios use; they exist before
// any scenario begins.
func Classes() []runtime.Object {
	var classes []runtime.Object
	for _, driver := range []string{fleet.GPUDriver, fleet.RDMADriver, fleet.FabricDriver, fleet.EdgeDriver, fleet.LicenseDriver} {
		classes = append(classes, workload.DriverClass(driver))
	}
	return append(classes, workload.Class(fleet.H100Driver,
		workload.OfDriver(fleet.H100Driver), `device.attributes["gpu.nvidia.com"].type == "gpu"`))
}

// gpuNodes returns count nodes of a scenario with devices large GPUs each, and
// the slices of the GPUs.
func gpuNodes(scenarioName string, count, devices int) []runtime.Object {
	objects := scenario.Nodes(scenarioName, count)
	for index := range count {
		node := scenario.NodeName(scenarioName, index)
		objects = append(objects, fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, devices)...))
	}
	return objects
}

// onNodesOf makes options for pods that run on the nodes of a scenario.
func onNodesOf(scenarioName string, uses ...workload.Use) workload.PodOptions {
	return workload.PodOptions{
		NodeSelector: map[string]string{fleet.NodePoolLabel: scenarioName},
		Uses:         uses,
	}
}

// onNode makes options for pods that run on one node.
func onNode(node string, uses ...workload.Use) workload.PodOptions {
	return workload.PodOptions{
		NodeSelector: map[string]string{"kubernetes.io/hostname": node},
		Uses:         uses,
	}
}

// anywhere makes options for pods that run on any node.
func anywhere(uses ...workload.Use) workload.PodOptions {
	return workload.PodOptions{Uses: uses}
}

// claimed uses an existing claim, under its own name.
func claimed(claim string) workload.Use { return workload.Use{As: claim, Claim: claim} }

// templated uses a claim made from a template, under the template's name.
func templated(template string) workload.Use { return workload.Use{As: template, Template: template} }

// gpus asks for count GPUs of the plain driver.
func gpus(count int64, where ...string) workload.Devices {
	return workload.Devices{Class: gpuClass, Count: count, Where: where}
}

// gpuAttribute is the CEL expression of an attribute of the plain GPUs.
func gpuAttribute(name string) string {
	return `device.attributes["` + fleet.GPUDriver + `"].` + name
}

// gpuMemory is the CEL expression of the memory of the plain GPUs.
const gpuMemory = `device.capacity["` + fleet.GPUDriver + `"].memory`
