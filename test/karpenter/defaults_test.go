package karpenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// extended is the extended resource that devices of a class stand for.
	extended = "example.com/gpu"
	// starting is a taint of new nodes that the driver removes.
	starting = "example.com/starting"
)

// testPassedOver: Karpenter says that it adds no node for a pod with a claim.
func testPassedOver(t *testing.T) {
	s := newSpace(t, "passed-over", poolOptions{})
	s.Create(s.Pod("pod", builder.FromTemplate(one)))
	s.Waiting("pod")
	s.told(s.Name, "pod", "FailedScheduling", "Dynamic Resource Allocation requirements that are not yet supported by Karpenter")
	s.Create(s.Pod("other", nil))
	s.Running("other")
	s.claimedOnce(1)
	s.Waiting("pod")
}

// testExtended: a pod with an extended resource gets a node whose kind has that much of it, although it gets devices there. As the node
// itself never reports the resource, Karpenter does not take it for initialized.
func testExtended(t *testing.T) {
	s := newSpace(t, "extended", poolOptions{byHand: true, taint: starting})
	class := builder.Class(s.Name+"-extended", builder.OfDriver(s.Driver))
	class.Spec.ExtendedResourceName = new(extended)
	s.Create(class)
	pod := s.Pod("pod", nil)
	builder.Extended(extended, "2")(pod)
	s.Create(pod)
	node := s.nodes(1)[0]
	require.Equal(t, "gpu-two", node.Labels[corev1.LabelInstanceTypeStable])
	s.startDriver(&node)
	s.Running("pod")
	require.Len(t, s.DeviceNames("pod"), 2)
	s.says(nodeClaims, s.claimedOnce(1)[0], "Initialized", "Unknown", "ResourceNotRegistered")
}

// startDriver does what kubelet and a driver do with a new node: the node has no extended resource, but devices, and is ready for pods.
func (s *space) startDriver(node *corev1.Node) {
	s.T.Helper()
	harness.UpdateStatus(s.T, cluster.Client.CoreV1().Nodes(), node.Name, func(node *corev1.Node) {
		delete(node.Status.Capacity, extended)
		delete(node.Status.Allocatable, extended)
	})
	require.NoError(s.T, s.publish(s.T.Context(), node))
	s.Eventually("remove the taint that Karpenter gives the node", func(ctx context.Context) error {
		nodes := cluster.Client.CoreV1().Nodes()
		node, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := len(node.Spec.Taints)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == starting })
		if len(node.Spec.Taints) == tainted {
			return errors.New("it does not have it yet")
		}
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// testStatic: pods with claims run on nodes that Karpenter keeps at a fixed number. More pods wait until the number is raised.
func testStatic(t *testing.T) {
	s := newSpace(t, "static", poolOptions{pool: "replicas: 1", kind: "gpu-two"})
	s.Create(s.Pod("first", builder.FromTemplate(two)))
	s.Running("first")
	s.Create(s.Pod("second", builder.FromTemplate(two)))
	s.Waiting("second", "held by")
	s.patchPool(`{"spec":{"replicas":2}}`)
	s.Running("second")
	s.claimedOnce(2)
}

// testStays: Karpenter does not consolidate a node with a pod that has a claim, because it cannot tell where that would go.
func testStays(t *testing.T) {
	s := newSpace(t, "stays", poolOptions{kind: "gpu-one"})
	cpu := s.Pod("cpu", nil)
	cpu.Annotations = map[string]string{doNotDisrupt: "true"} // Until the other pod is there.
	s.Create(cpu)
	s.Running("cpu")
	s.Create(s.Pod("pod", builder.FromTemplate(one)))
	s.Running("pod")
	node := s.node("pod").Name
	s.DeletePod("cpu")
	s.Gone("cpu")
	s.consolidate()
	s.told(metav1.NamespaceDefault, node, "Unconsolidatable", "Dynamic Resource Allocation")
	require.Equal(t, node, s.node("pod").Name)
	s.Eventually("have one node", func(ctx context.Context) error {
		claims, err := s.claimed(ctx)
		if err == nil && len(claims) != 1 {
			err = fmt.Errorf("it has %d", len(claims))
		}
		return err
	})
}
