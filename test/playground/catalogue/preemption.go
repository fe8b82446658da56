package catalogue

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// preemptionScenarios show victims of preemption. Only their own pods have a priority, and only their own nodes have
// the devices, so no other pod is evicted.
func preemptionScenarios() []scenario.Scenario {
	return []scenario.Scenario{preemption()}
}

// priorityClass returns a PriorityClass.
func priorityClass(name string, value int32) runtime.Object {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// important gives a pod a priority class.
func important(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

func preemption() scenario.Scenario {
	const (
		name    = "preemption"
		service = name + "-service"
		urgent  = name + "-urgent"
	)
	pod := func(app string, edits ...func(*corev1.Pod)) runtime.Object {
		return builder.AppPod(app, app, append(edits, onNodesOf(name, builder.FromTemplate("one")))...)
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "Two GPUs are in use when an urgent pod comes: the less important of their pods has to go, and nobody else.",
		Cluster: append(gpuNodes(name, 1, 2), priorityClass(service, 100), priorityClass(urgent, 1000)),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("one", gpus(1)).Template(), pod("batch")),
			scenario.Expect(scenario.Scheduled("batch", 1, scenario.DeviceNames("gpu-0"))),
			scenario.Create(pod("service", important(service))),
			scenario.Expect(scenario.Scheduled("service", 1, scenario.DeviceNames("gpu-1"))),
			// It has the same priority as the others, so none is evicted for it.
			scenario.Create(pod("later")),
			scenario.Expect(scenario.Waits("later", 1, scenario.Reason{Cause: devicesHeld, Entry: "one", Request: "gpu"})),
			scenario.Create(pod("urgent", important(urgent))),
			// The waiting pod does not get the GPU of the victim.
			scenario.Expect(
				scenario.Scheduled("batch", 0),
				scenario.Scheduled("service", 1, scenario.Running(), scenario.DeviceNames("gpu-1")),
				scenario.Scheduled("urgent", 1, scenario.DeviceNames("gpu-0")),
				scenario.Waits("later", 1, scenario.Reason{Cause: devicesHeld, Entry: "one", Request: "gpu"}),
			),
		},
	}
}
