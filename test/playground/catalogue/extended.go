package catalogue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// extendedScenarios show devices that pods ask for as an extended resource (KEP-5004).
func extendedScenarios() []scenario.Scenario {
	return []scenario.Scenario{extendedResource(), besideDevicePlugin()}
}

// servingClass returns the class of the plain GPUs under another name, with an extended resource name.
func servingClass(name string, resource corev1.ResourceName) *resourceapi.DeviceClass {
	class := builder.Class(name, builder.OfDriver(fleet.GPUDriver))
	extended := string(resource)
	class.Spec.ExtendedResourceName = &extended
	return class
}

// asking lets pods run on the nodes of a scenario, and ask for an extended resource.
func asking(scenarioName string, resource corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		onNodesOf(scenarioName)(pod)
		builder.Extended(resource, quantity)(pod)
	}
}

func extendedResource() scenario.Scenario {
	const name, class, explicit = "extended-resource", "gpu-extended", "example.com/gpu-extended"
	implicit := corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class)
	return scenario.Scenario{
		Name:    name,
		Shows:   "Pods without any claim ask for example.com/gpu-extended: 2; the scheduler makes the claims.",
		Cluster: append(gpuNodes(name, 2, 4), servingClass(class, explicit)),
		Steps: []scenario.Step{
			scenario.Create(builder.Deployment("named", 3, asking(name, explicit, "2"))),
			scenario.Expect(scenario.Scheduled("named", 3, scenario.DevicesEach(2), scenario.NoDeviceTwice(),
				scenario.FromRequest("container-0-request-1"), scenario.ReservedFor(1), scenario.Running())),
			// Use the class's implicit resource name for the remaining devices.
			scenario.Create(builder.AppPod("by-class", "by-class", asking(name, implicit, "2"))),
			scenario.Expect(scenario.Scheduled("by-class", 1, scenario.DevicesEach(2))),
			scenario.Create(builder.AppPod("late", "late", asking(name, explicit, "1"))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld})),
			scenario.Delete(builder.AppPod("by-class", "by-class", asking(name, implicit, "2"))),
			scenario.Deleted("by-class"),
			scenario.Expect(scenario.Scheduled("late", 1, scenario.DevicesEach(1))),
		},
	}
}

func besideDevicePlugin() scenario.Scenario {
	const name, explicit = "beside-device-plugin", "example.com/gpu-beside"
	plugin := fleet.Node(scenario.NodeName(name, 0), name, nil)
	plugin.Status.Capacity[explicit] = resource.MustParse("2")
	plugin.Status.Allocatable = plugin.Status.Capacity.DeepCopy()
	devices := scenario.NodeName(name, 1)
	objects := append(scenario.Nodes(name, 2)[1:], fleet.LocalSlice(fleet.GPUDriver, devices, fleet.PlainGPUs(devices, 0, 2)...).Obj())
	return scenario.Scenario{
		Name:    name,
		Shows:   "One node offers a resource by device plugin, another one has devices for it; pods use both.",
		Cluster: append(objects, plugin, servingClass("gpu-beside", explicit)),
		Steps: []scenario.Step{
			scenario.Create(builder.Deployment("worker", 4, asking(name, explicit, "1"))),
			scenario.Expect(scenario.Scheduled("worker", 4, scenario.NoDeviceTwice(), scenario.Running(), claimsOnlyOn(devices))),
			scenario.Create(builder.AppPod("late", "late", asking(name, explicit, "1"))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld, Mentions: []string{"Insufficient " + explicit}})),
		},
	}
}

// claimsOnlyOn wants pods on one node to have a claim, and the others to have none.
func claimsOnlyOn(node string) scenario.Check {
	return func(g *scenario.AppPods) error {
		for _, member := range g.Members {
			want := 0
			if member.Pod.Spec.NodeName == node {
				want = 1
			}
			if len(member.Claims) != want {
				return fmt.Errorf("pod %s on node %s has %d claims, want %d", member.Pod.Name, member.Pod.Spec.NodeName, len(member.Claims), want)
			}
		}
		return nil
	}
}
