package alpha

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// devicesOfNode publishes devices on node 0, as soon as the API server has heard that the
// node declares the feature.
func (s *space) devicesOfNode(devices ...*builder.DeviceBuilder) {
	s.T.Helper()
	s.declare(0, mapsResources)
	s.Eventually("publish devices of the node", func(ctx context.Context) error {
		return s.Cluster.Objects.Create(ctx, s.Name, s.Slice(0, devices...).Obj())
	})
}

// cpus is a device that stands for CPUs of its node.
func cpus(name string, count string) *builder.DeviceBuilder {
	return builder.Device(name).Attr("cpus", count).Modify(stands(corev1.ResourceCPU, count))
}

// taken returns the CPUs that the status of a pod says its devices take.
func (s *space) taken(pod string) string {
	s.T.Helper()
	claims := s.LivePod(pod).Status.NodeAllocatableResourceClaimStatuses
	require.Len(s.T, claims, 1)
	return claims[0].Mapping[0].Quantity.String()
}

// leave leaves node 0 amounts of resources: name, quantity and so on.
func (s *space) leave(pairs ...string) {
	s.T.Helper()
	s.Eventually("set the resources of the node", func(ctx context.Context) error {
		nodes := s.Cluster.Client.CoreV1().Nodes()
		node, err := nodes.Get(ctx, s.Node(0), metav1.GetOptions{})
		if err != nil {
			return err
		}
		maps.Copy(node.Status.Allocatable, builder.Resources(pairs...))
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Pods of both kinds, with devices that stand for CPUs and with CPUs in their spec, get no more CPUs than the node has.
func testNodeAllocatable(t *testing.T) {
	s := newSpace(t, "ofnode", 1)
	s.leave("cpu", "4")
	s.devicesOfNode(cpus("cpu-0", "1"), cpus("cpu-1", "2"), cpus("cpu-2", "1"))
	s.ClaimAndPod("most", s.Want(1, s.Attribute("cpus")+` == "2"`))
	s.Running("most")
	require.Equal(t, "2", s.taken("most"))

	spec := s.Pod("spec", nil)
	spec.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "1")
	s.Create(spec)
	s.Running("spec")
	s.ClaimAndPod("late", s.Want(1))
	s.MayWait("the CPUs of the node are taken", "late")
	s.Waiting("late", "Insufficient cpu")
	s.DeletePod("spec")
	s.RunningSoon("late")
	require.Equal(t, "1", s.taken("late"))
}

// A pod whose device stands for CPUs evicts a pod of lower priority that has CPUs in its spec only.
func testNodeAllocatablePreemption(t *testing.T) {
	s := newSpace(t, "ofnodeevicts", 1)
	cluster.PriorityClass(t, "ofnode-high", 1000)
	s.leave("cpu", "4")
	s.devicesOfNode(cpus("cpu-0", "2"))
	low := s.Pod("low", nil)
	low.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "3")
	s.Create(low)
	s.Running("low")
	high := s.Pod("high", builder.Uses("high"))
	high.Spec.PriorityClassName = "ofnode-high"
	s.Create(builder.Claim("high", s.Want(1)).Obj(), high)
	s.Running("high")
	require.Equal(t, "2", s.taken("high"))
	s.Gone("low")
}

// A gang whose devices stand for CPUs evicts as many pods as it lacks CPUs, though it lacks only one device.
func testNodeAllocatableGangPreemption(t *testing.T) {
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s := newSpace(t, "ofnodegang", 1)
	cluster.PriorityClass(t, "ofnode-gang", 1000)
	s.leave("cpu", "4500m") // Pods have 100m besides.
	s.devicesOfNode(cpus("cpu-0", "1"), cpus("cpu-1", "1"), cpus("cpu-2", "1"), cpus("cpu-3", "1"))
	s.Create(builder.Claim("one", s.Want(1)).Template())
	low := []string{"low-0", "low-1", "low-2"}
	for i, name := range low {
		pod := s.Pod(name, builder.FromTemplate("one"))
		if i == 2 {
			pod = s.Pod(name, nil)
			pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "1")
		}
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		s.Create(pod)
	}
	s.Running(low...)
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}})
	gang := []string{"gang-0", "gang-1", "gang-2"}
	for _, name := range gang {
		pod := s.Pod(name, builder.FromTemplate("one"))
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
		pod.Spec.PriorityClassName = "ofnode-gang"
		s.Create(pod)
	}
	s.Running(gang...)
	for _, name := range gang {
		require.Equal(t, "1", s.taken(name))
	}
	require.Equal(t, 4, s.Bound(), "no more than necessary went")
}

// What another scheduler allocated is accounted for too.
func testNodeAllocatableOfOthers(t *testing.T) {
	s := newSpace(t, "ofnodeothers", 1)
	s.devicesOfNode(cpus("cpu-0", "1"))
	s.Create(builder.Claim("allocated", s.Want(1)).Obj())
	s.Protect("allocated")
	s.UpdateClaimStatus("allocated", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = builder.Claim("", builder.Request("gpu", s.Name)).Allocated(s.Node(0), "cpu-0").Status.Allocation
		claim.Status.Allocation.Devices.Results[0].Driver = s.Driver
		claim.Status.Allocation.Devices.Results[0].Request = "gpu"
	})
	s.Create(s.Pod("user", builder.Uses("allocated")))
	s.Running("user")
	require.Equal(t, "1", s.taken("user"))
	s.Create(s.Pod("second", builder.Uses("allocated")))
	s.MayWait("the CPUs of the claim are charged to another pod", "second")
	s.Waiting("second", "cannot be shared across pods")
}

func testNodeAllocatableWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "ofnodeoff", 1, map[string]bool{"DRANodeAllocatableResources": false})
	s.devicesOfNode(cpus("cpu-0", "1"))
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
}
