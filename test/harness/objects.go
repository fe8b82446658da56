package harness

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// Numbered makes plain devices "gpu-0", "gpu-1" and so on, whose attribute "index"
// is their number.
func Numbered(count int) []*builder.DeviceBuilder {
	devices := builder.NumberedDevices("gpu", count)
	for i, device := range devices {
		device.Attr("index", i)
	}
	return devices
}

// Want asks for devices of the space's class.
func (s *Space) Want(count int64, where ...string) workload.Devices {
	return workload.Devices{Class: s.Name, Count: count, Where: where}
}

// WantAll asks for all devices of the space's class.
func (s *Space) WantAll(where ...string) workload.Devices {
	return workload.Devices{Class: s.Name, All: true, Where: where}
}

// Attribute is the CEL expression of a device attribute.
func (s *Space) Attribute(name string) string {
	return fmt.Sprintf("device.attributes[%q].%s", s.Driver, name)
}

// One makes a claim for devices, in a request "gpu".
func One(name string, devices workload.Devices) *resourceapi.ResourceClaim {
	return workload.Claim(name, workload.Request("gpu", devices))
}

// Uses are existing claims, each under its own name.
func Uses(claims ...string) []workload.Use {
	var result []workload.Use
	for _, claim := range claims {
		result = append(result, workload.Use{As: claim, Claim: claim})
	}
	return result
}

// FromTemplate is a claim generated from a template, under the template's name.
func FromTemplate(template string) []workload.Use {
	return []workload.Use{{As: template, Template: template}}
}

// Pod makes a pod that runs on the nodes of the space only.
func (s *Space) Pod(name string, uses []workload.Use) *corev1.Pod {
	return s.PodOn(name, map[string]string{fleet.NodePoolLabel: s.Name}, uses)
}

// PodOnNode makes a pod that runs on one node only.
func (s *Space) PodOnNode(name string, node int, uses []workload.Use) *corev1.Pod {
	return s.PodOn(name, map[string]string{corev1.LabelHostname: s.Node(node)}, uses)
}

// PodOn makes a pod that runs on nodes with some labels only.
func (s *Space) PodOn(name string, nodeSelector map[string]string, uses []workload.Use) *corev1.Pod {
	pod := workload.Pod(name, name, workload.PodOptions{NodeSelector: nodeSelector, Uses: uses})
	pod.Spec.SchedulerName = s.Profile
	return pod
}

// ClaimAndPod makes a claim for devices and a pod of the same name that uses it.
func (s *Space) ClaimAndPod(name string, devices workload.Devices) {
	s.T.Helper()
	s.Create(One(name, devices), s.Pod(name, Uses(name)))
}
