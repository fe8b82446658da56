package catalogue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// Short names for values that nearly every scenario uses.
const (
	gpuClass = fleet.GPUDriver

	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
	noExecute  = resourceapi.DeviceTaintEffectNoExecute
)

// Scenarios returns all scenarios. The objects in them are new with every call.
func Scenarios() []scenario.Scenario { return slices.Concat(WithDefaultGates(), Gangs(), Examples()) }

// WithDefaultGates returns the scenarios that need no feature gate that is off by default.
func WithDefaultGates() []scenario.Scenario {
	return slices.Concat(
		claimScenarios(),
		sharingScenarios(),
		requestScenarios(),
		selectorScenarios(),
		constraintScenarios(),
		taintScenarios(),
		bindingScenarios(),
		dividedScenarios(),
		poolScenarios(),
		reachScenarios(),
		extendedScenarios(),
		preemptionScenarios(),
		wholeGangScenarios(),
		badInputScenarios(),
		badReferenceScenarios(),
	)
}

// Classes returns the device classes that several scenarios use; they exist before any scenario begins.
func Classes() []runtime.Object {
	var classes []runtime.Object
	for _, driver := range []string{
		fleet.GPUDriver, fleet.RDMADriver, fleet.FabricDriver, fleet.EdgeDriver, fleet.LicenseDriver,
		"gpu.amd.com", "gpu.intel.com", "dra.cpu",
	} {
		classes = append(classes, builder.DriverClass(driver))
	}
	// As NVIDIA's driver installs them.
	gpu := builder.Class(fleet.H100Driver, builder.OfDriver(fleet.H100Driver), `device.attributes["gpu.nvidia.com"].type == "gpu"`)
	gpu.Spec.ExtendedResourceName = ptr.To("nvidia.com/gpu")
	mig := builder.Class("mig.nvidia.com", builder.OfDriver(fleet.H100Driver), `device.attributes["gpu.nvidia.com"].type == "mig"`)
	return append(classes, gpu, mig)
}

// gpuNodes returns count nodes of a scenario with devices large GPUs each, and
// the slices of the GPUs.
func gpuNodes(scenarioName string, count, devices int) []runtime.Object {
	objects := scenario.Nodes(scenarioName, count)
	for index := range count {
		node := scenario.NodeName(scenarioName, index)
		objects = append(objects, fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, devices)...).Obj())
	}
	return objects
}

// onNodesOf lets pods run on the nodes of a scenario, and use claims.
func onNodesOf(scenarioName string, claims ...[]corev1.PodResourceClaim) func(*corev1.Pod) {
	return onLabeled(fleet.NodePoolLabel, scenarioName, claims)
}

// onNode lets pods run on one node, and use claims.
func onNode(node string, claims ...[]corev1.PodResourceClaim) func(*corev1.Pod) {
	return onLabeled(corev1.LabelHostname, node, claims)
}

func onLabeled(label, value string, claims [][]corev1.PodResourceClaim) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		builder.OnLabeled(label, value)(pod)
		builder.Using(slices.Concat(claims...)...)(pod)
	}
}

// gpus asks for count GPUs of the plain driver, in a request "gpu".
func gpus(count int64, where ...string) *builder.RequestBuilder {
	return builder.Request("gpu", gpuClass).Count(count).Where(where...)
}

// gpuAttribute returns the CEL expression of an attribute of the plain GPUs.
func gpuAttribute(name string) string {
	return `device.attributes["` + fleet.GPUDriver + `"].` + name
}

// gpuMemory is the CEL expression of the memory of the plain GPUs.
const gpuMemory = `device.capacity["` + fleet.GPUDriver + `"].memory`
