package harness

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
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

// Want asks for devices of the space's class, in a request "gpu".
func (s *Space) Want(count int64, where ...string) *builder.RequestBuilder {
	return builder.Request("gpu", s.Name).Count(count).Where(where...)
}

// WantAll asks for all devices of the space's class, in a request "gpu".
func (s *Space) WantAll(where ...string) *builder.RequestBuilder {
	return builder.Request("gpu", s.Name).All().Where(where...)
}

// Attribute is the CEL expression of a device attribute.
func (s *Space) Attribute(name string) string {
	return fmt.Sprintf("device.attributes[%q].%s", s.Driver, name)
}

// Pod makes a pod that runs on the nodes of the space only.
func (s *Space) Pod(name string, claims []corev1.PodResourceClaim) *corev1.Pod {
	return s.PodOn(name, map[string]string{fleet.NodePoolLabel: s.Name}, claims)
}

// PodOnNode makes a pod that runs on one node only.
func (s *Space) PodOnNode(name string, node int, claims []corev1.PodResourceClaim) *corev1.Pod {
	return s.PodOn(name, map[string]string{corev1.LabelHostname: s.Node(node)}, claims)
}

// PodOn makes a pod that runs on nodes with some labels only.
func (s *Space) PodOn(name string, nodeSelector map[string]string, claims []corev1.PodResourceClaim) *corev1.Pod {
	pod := builder.AppPod(name, name, builder.Using(claims...))
	pod.Spec.NodeSelector = nodeSelector
	pod.Spec.SchedulerName = s.Profile
	return pod
}

// ClaimAndPod makes a claim with a request and a pod of the same name that uses it.
func (s *Space) ClaimAndPod(name string, request *builder.RequestBuilder) {
	s.T.Helper()
	s.Create(builder.Claim(name, request).Obj(), s.Pod(name, builder.Uses(name)))
}
