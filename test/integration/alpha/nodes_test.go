package alpha

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// What devices ask of their nodes: to leave out operations of the kubelet, or some of
// the node's own resources.
func TestNodes(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"operations left out":                    testSkippedOperations,
		"operations left out, kubelet updated":   testNodeDeclaresFeature,
		"operations left out, claim is shared":   testSkippedOperationsShared,
		"operations left out, the gate is off":   testSkippedOperationsWithoutGate,
		"resources of the node":                  testNodeAllocatable,
		"resources of the node, preemption":      testNodeAllocatablePreemption,
		"resources of the node, gang preemption": testNodeAllocatableGangPreemption,
		"resources of the node, others' claim":   testNodeAllocatableOfOthers,
		"resources of the node, the gate is off": testNodeAllocatableWithoutGate,
		"fractions":                              testFractions,
	})
}

// Features that kubelets declare.
const (
	skipsOperations = "DRAOptionalNodeOperations"
	mapsResources   = "DRANodeAllocatableResources"
)

// declare makes the kubelet of a node say that it has a feature.
func (s *space) declare(node int, feature string) {
	s.T.Helper()
	s.Eventually("declare a feature of node "+s.Node(node), func(ctx context.Context) error {
		nodes := s.Cluster.Client.CoreV1().Nodes()
		found, err := nodes.Get(ctx, s.Node(node), metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.DeclaredFeatures = []string{feature}
		updated, err := nodes.UpdateStatus(ctx, found, metav1.UpdateOptions{})
		if err == nil && len(updated.Status.DeclaredFeatures) == 0 {
			err = fmt.Errorf("the API server has not stored it")
		}
		return err
	})
}

// networkDevices are devices that all nodes reach and for which the kubelet has nothing to do.
func (s *space) networkDevices(count int) {
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(harness.Numbered(count)...).Modify(func(slice *resourceapi.ResourceSlice) {
		slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	}).Obj())
}

func testSkippedOperations(t *testing.T) {
	s := newSpace(t, "skipping", 2)
	s.declare(1, skipsOperations)
	s.networkDevices(2)
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(t, s.Node(1), s.LivePod("one").Spec.NodeName)
	require.Equal(t, []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}, s.Results("one")[0].SkipNodeOperations)
	s.Create(builder.Claim("pinned", s.Want(1)).Obj(), s.PodOnNode("pinned", 0, builder.Uses("pinned")))
	s.Waiting("pinned", "claim "+s.Name+"/pinned", "need a feature that is off (DRAOptionalNodeOperations on the node)")
}

// The pod is woken when the kubelet of its node has been updated.
func testNodeDeclaresFeature(t *testing.T) {
	s := newSpace(t, "declares", 1)
	s.networkDevices(1)
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "DRAOptionalNodeOperations on the node")
	s.declare(0, skipsOperations)
	s.RunningSoon("one")
}

// An allocation that needs it can only be used on nodes that declare the feature.
func testSkippedOperationsShared(t *testing.T) {
	s := newSpace(t, "skippingshared", 2)
	s.declare(1, skipsOperations)
	s.networkDevices(1)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")
	s.Create(s.PodOnNode("elsewhere", 0, builder.Uses("shared")))
	s.MayWait("its node does not declare the feature that the allocation needs", "elsewhere")
	s.Waiting("elsewhere", "claim "+s.Name+"/shared")
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.Running("second")
	require.Equal(t, s.Node(1), s.LivePod("second").Spec.NodeName)
}

func testSkippedOperationsWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "skippingoff", 1, map[string]bool{"DRAOptionalNodeOperations": false})
	s.declare(0, skipsOperations)
	s.networkDevices(1)
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "claim "+s.Name+"/one", "needs a feature that is off (DRAOptionalNodeOperations)")
}

// Amounts are rounded up to steps below one (DRAFractionalCapacityRange); without the gate
// to whole numbers.
func testFractions(t *testing.T) {
	policy := &resourceapi.CapacityRequestPolicy{
		Default: ptr.To(resource.MustParse("500m")),
		ValidRange: &resourceapi.CapacityRequestPolicyRange{
			Min: ptr.To(resource.MustParse("250m")), Max: ptr.To(resource.MustParse("2")), Step: ptr.To(resource.MustParse("250m"))},
	}
	cores := func(s *space) {
		s.Devices(0, builder.Device("cores").Shared().Modify(func(d *resourceapi.Device) {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"cores": {Value: resource.MustParse("2"), RequestPolicy: policy}}
		}))
	}
	consumed := func(s *space, pod, asked string) string {
		devices := s.Want(1)
		if asked != "" {
			devices.Capacity("cores", asked)
		}
		s.ClaimAndPod(pod, devices)
		s.Running(pod)
		amount := s.Results(pod)[0].ConsumedCapacity["cores"]
		return amount.String()
	}
	s := newSpace(t, "fractions", 1)
	cores(s)
	require.Equal(t, "500m", consumed(s, "default", ""))
	require.Equal(t, "250m", consumed(s, "least", "1m"))
	require.Equal(t, "750m", consumed(s, "rounded", "501m"))
	require.Equal(t, "500m", consumed(s, "exactly", "500m"))
	s.ClaimAndPod("late", s.Want(1).Capacity("cores", "250m"))
	s.Waiting("late", "claim "+s.Name+"/late", "too little capacity left (cores:")

	off := newSpaceWithout(t, "fractionsoff", 1, map[string]bool{"DRAFractionalCapacityRange": false})
	cores(off)
	require.Equal(t, "500m", consumed(off, "default", ""))
	require.Equal(t, "1", consumed(off, "rounded", "501m"))
}
