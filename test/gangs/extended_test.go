package gangs

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// askers creates pods of a group that ask for extended resources, and returns their names.
func (s *space) askers(group string, from, count int, quantity string, edits ...func(*corev1.Pod)) (names []string) {
	s.T.Helper()
	for i := range count {
		pod := in(group, s.Pod(fmt.Sprintf("%s-%d", group, from+i), nil))
		builder.Extended(corev1.ResourceName(s.Implicit()), quantity)(pod)
		for _, edit := range edits {
			edit(pod)
		}
		s.Create(pod)
		names = append(names, pod.Name)
	}
	return names
}

// claims are all that there are.
func (s *space) claims() []resourceapi.ResourceClaim {
	s.T.Helper()
	list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	return list.Items
}

// TestExtendedResources: a gang asks for extended resources (KEP-5004), which devices back on one node and a device plugin
// offers on another one. All its pods get some, or none; another gang waits whole and is told what it lacks.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "extended", false, 2, 2)
	s.Offer(1, s.Implicit(), "1") // Its two devices back nothing then.
	s.group("first", 3)
	first := s.askers("first", 0, 2, "1")
	s.Waiting(first[0], "2 of 3 pods exist (minMember)")
	first = append(first, s.askers("first", 2, 1, "1")...)
	s.Running(first...)
	require.Len(t, s.claims(), 2, "one pod has what the device plugin offers")

	s.group("second", 2)
	second := s.askers("second", 0, 2, "1")
	for _, pod := range second {
		s.Waiting(pod, "0 of 2 pods fit", "2 more devices of class "+s.Name, "group "+s.Name+"/first holds 2")
	}
	require.Len(t, s.claims(), 2, "nothing is made for a gang that does not fit")
	s.deletePods(first...)
	s.Running(second...)
	s.NothingLeaked()
}

// TestExtendedResourcesGoWhere: of two pods one has to be where the devices are. The other one, which comes first, must not
// take them, although that is where it would go alone.
func TestExtendedResourcesGoWhere(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "extended-where", false, 2, 0)
	s.Devices(0, builder.Device("gpu-0"))
	s.Offer(1, s.Implicit(), "1")
	s.group("gang", 2)
	pods := s.askers("gang", 0, 1, "1")
	pods = append(pods, s.askers("gang", 1, 1, "1", func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.Node(0)}
	})...)
	s.Running(pods...)
	require.Equal(t, s.Node(1), s.LivePod(pods[0]).Spec.NodeName)
	require.Len(t, s.claims(), 1)
}

// TestExtendedResourcesLeft: claims that attempts of a scheduler before have made for pods of a gang are on devices with which
// the gang does not fit, or are not what the pods need. They do not stay.
func TestExtendedResourcesLeft(t *testing.T) {
	t.Parallel()
	for name, devices := range map[string]int64{"same": 1, "other": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "extended-left-"+name, false, 2, 0)
			s.Devices(0, builder.Device("gpu-0"))
			s.Devices(1, builder.Device("gpu-0"), builder.Device("gpu-1"))
			s.group("gang", 2)
			pods := s.askers("gang", 0, 1, "1")
			s.leave(pods[0], 1, devices)
			onOther := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.Node(1)} }
			pods = append(pods, s.askers("gang", 1, 1, "2", onOther)...)
			s.RunningSoon(pods...)
			require.Equal(t, s.Node(0), s.LivePod(pods[0]).Spec.NodeName)
			s.Eventually("only the claims of both pods are left", func(context.Context) error {
				if n := len(s.claims()); n != 2 {
					return fmt.Errorf("there are %d", n)
				}
				return nil
			})
		})
	}
}

// leave makes a claim for a pod's extended resources as a scheduler does, with some devices of a node.
func (s *space) leave(podName string, node int, devices int64) {
	s.T.Helper()
	const request = "container-0-request-0"
	pod := s.LivePod(podName)
	claim := builder.Unsaved(s.Name, builder.Claim("left", builder.Request(request, s.Name).Count(devices)).Modify(func(claim *resourceapi.ResourceClaim) {
		claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		claim.Finalizers = []string{resourceapi.Finalizer}
	}).Obj())
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	_, err := claims.Create(s.T.Context(), claim, metav1.CreateOptions{})
	require.NoError(s.T, err)
	allocation := &resourceapi.AllocationResult{NodeSelector: builder.NodeSelector(corev1.LabelHostname, s.Node(node))}
	for i := range devices {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: request, Driver: s.Driver, Pool: s.Node(node), Device: fmt.Sprint("gpu-", i),
		})
	}
	harness.UpdateStatus(s.T, claims, claim.Name, func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = allocation
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	})
}
