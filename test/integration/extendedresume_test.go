package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// leaveClaim creates the claim for a pod's extended resources as an attempt would that
// died after that, in this scheduler or in kube-scheduler.
func (s *space) leaveClaim(pod *corev1.Pod, count int64) *resourceapi.ResourceClaim {
	s.T.Helper()
	claim, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).Create(s.T.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: pod.Name + "-extended-resources-",
			Annotations:  map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
			}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:    "container-0-request-0",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: s.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count},
		}}}},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return claim
}

// allocateLeft allocates a claim of leaveClaim and reserves it for its pod.
func (s *space) allocateLeft(claim *resourceapi.ResourceClaim, node int, device string) {
	s.T.Helper()
	owner := metav1.GetControllerOf(claim)
	s.Protect(claim.Name)
	s.UpdateClaimStatus(claim.Name, func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "container-0-request-0", Driver: s.Driver, Pool: s.Node(node), Device: device,
			}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{s.Node(node)}}},
			}}},
		}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: owner.Name, UID: owner.UID}}
	})
}

// A scheduler starts where another one crashed between any two of the steps that a pod
// with extended resources takes. Whatever it finds, each pod gets its devices with one
// claim, and nothing is left of others.
func TestResumeExtendedResources(t *testing.T) {
	harness.Long(t, "a scheduler starts at each of many points of a crash")
	t.Parallel()
	const devices = 6
	s := newOwnSpace(t, "extresume", 2)
	for node := range 2 {
		s.Devices(node, numbered(devices)...)
	}
	create := func(name string) *corev1.Pod {
		s.Create(s.extendedPod(name, s.Implicit(), "1"))
		return s.LivePod(name)
	}
	// kept are claims to go on with, and devices those that they have.
	kept, held := map[string]string{}, map[string]string{}

	kept["created"] = s.leaveClaim(create("created"), 1).Name

	claim := s.leaveClaim(create("protected"), 1)
	s.Protect(claim.Name)
	kept["protected"] = claim.Name

	claim = s.leaveClaim(create("allocated"), 1)
	s.allocateLeft(claim, 1, "gpu-5")
	kept["allocated"], held["allocated"] = claim.Name, s.Node(1)+"/gpu-5"

	recorded := create("recorded")
	claim = s.leaveClaim(recorded, 1)
	s.allocateLeft(claim, 0, "gpu-5")
	harness.UpdateStatus(t, cluster.Client.CoreV1().Pods(s.Name), recorded.Name, func(pod *corev1.Pod) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: claim.Name,
			RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: s.Implicit(), RequestName: "container-0-request-0"}},
		}
	})
	kept["recorded"], held["recorded"] = claim.Name, s.Node(0)+"/gpu-5"

	// These are of no use: made for something else; allocated where the pod cannot run; one
	// too many; deleted, but held by its reservation.
	s.leaveClaim(create("different"), 3)
	misplaced := s.extendedPod("misplaced", s.Implicit(), "1")
	misplaced.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.Node(0)}
	s.Create(misplaced)
	s.allocateLeft(s.leaveClaim(s.LivePod("misplaced"), 1), 1, "gpu-4")
	twice := create("twice")
	s.leaveClaim(twice, 1)
	s.allocateLeft(s.leaveClaim(twice, 1), 0, "gpu-4")
	deleted := s.leaveClaim(create("deleted"), 1)
	s.allocateLeft(deleted, 1, "gpu-3")
	s.Delete(deleted)

	s.StartScheduler(harness.SchedulerOptions{})
	pods := []string{"created", "protected", "allocated", "recorded", "different", "misplaced", "twice", "deleted"}
	s.Running(pods...)
	for _, pod := range pods {
		claim := s.onlyClaim(pod)
		if name := kept[pod]; name != "" {
			require.Equal(t, name, claim.Name, "pod %s has to go on with what is there", pod)
		}
		if device := held[pod]; device != "" {
			require.Equal(t, []string{device}, s.DeviceNames(pod))
		}
	}
	require.Equal(t, 2*devices-len(pods), s.NothingLeaked())
}
