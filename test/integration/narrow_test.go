package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// In a cluster that is nearly full, PreFilter names the few nodes that have devices.
// That must cost a pod nothing: not the last device, and not the reasons of the nodes
// that were left out, whoever rejects the pod on those that were named.
func TestNearlyFullCluster(t *testing.T) {
	t.Parallel()
	const nodes = 6
	s := newSpace(t, "nearly-full", nodes)
	s.create(workload.Template("gpu", workload.Request("gpu", workload.Devices{Class: s.name, Count: 1})))
	free := make(map[string]bool)
	for i := range nodes {
		s.devices(i, numbered(1)...)
		free[s.node(i)] = true
	}
	for i := range nodes - 1 {
		name := fmt.Sprintf("holds-%d", i)
		s.create(s.pod(name, fromTemplate("gpu")))
		s.running(name)
		pod, err := knownPod(s.name, name)
		require.NoError(t, err)
		delete(free, pod.Spec.NodeName)
	}
	require.Len(t, free, 1)
	for node := range free {
		s.patchNode(node, `{"spec":{"taints":[{"key":"example.com/broken","effect":"NoSchedule"}]}}`)
		s.create(s.pod("last", fromTemplate("gpu")))
		s.waiting("last", "1 node(s) had untolerated taint", fmt.Sprintf("%d claim %s/", nodes-1, s.name),
			"1 device matches, but it is held by another claim")
		s.patchNode(node, `{"spec":{"taints":null}}`)
		s.running("last")
	}
	s.create(s.pod("too-many", fromTemplate("gpu")))
	s.waiting("too-many", fmt.Sprintf("%d claim %s/", nodes, s.name), "1 device matches, but it is held by another claim")
	s.deletePod("holds-0")
	s.running("too-many")
}

// patchNode changes a node with a strategic merge patch.
func (s *space) patchNode(name, patch string) {
	s.t.Helper()
	node, err := cluster.client.CoreV1().Nodes().Patch(s.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
	require.Equal(s.t, name, node.Name)
}
