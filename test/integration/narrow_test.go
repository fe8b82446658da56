package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// In a cluster that is nearly full, PreFilter names the few nodes that have devices.
// That must cost a pod nothing: not the last device, and not the reasons of the nodes
// that were left out, whoever rejects the pod on those that were named.
func TestNearlyFullCluster(t *testing.T) {
	harness.Long(t, "it fills a cluster")
	t.Parallel()
	const nodes = 6
	s := newSpace(t, "nearly-full", nodes)
	s.Create(builder.Claim("gpu", builder.Request("gpu", s.Name)).Template())
	free := make(map[string]bool)
	for i := range nodes {
		s.Devices(i, numbered(1)...)
		free[s.Node(i)] = true
	}
	for i := range nodes - 1 {
		name := fmt.Sprintf("holds-%d", i)
		s.Create(s.Pod(name, builder.FromTemplate("gpu")))
		s.Running(name)
		pod, err := s.KnownPod(name)
		require.NoError(t, err)
		delete(free, pod.Spec.NodeName)
	}
	require.Len(t, free, 1)
	for node := range free {
		s.patchNode(node, `{"spec":{"taints":[{"key":"example.com/broken","effect":"NoSchedule"}]}}`)
		s.Create(s.Pod("last", builder.FromTemplate("gpu")))
		s.Waiting("last", "node(s) had untolerated taint(s)", fmt.Sprintf("%d cannot allocate all claims: claim gpu of the pod request gpu: ", nodes-1),
			"1 device matches: 1 asked; 0 free; 1 held by another claim")
		s.patchNode(node, `{"spec":{"taints":null}}`)
		s.Running("last")
	}
	s.Create(s.Pod("too-many", builder.FromTemplate("gpu")))
	s.Waiting("too-many", fmt.Sprintf("%d cannot allocate all claims: claim gpu of the pod request gpu: ", nodes), "1 device matches: 1 asked; 0 free; 1 held by another claim")
	s.DeletePod("holds-0")
	s.Running("too-many")
}

// A claim without requests can be had on any node: where no pod may go to the nodes that
// have devices, all of several pods alike run on those that have none.
func TestClaimsWithoutRequests(t *testing.T) {
	t.Parallel()
	const nodes, withDevices, pods = 10, 2, 4
	s := newSpace(t, "no-requests", nodes)
	for i := range withDevices {
		s.Devices(i, numbered(1)...)
		s.patchNode(s.Node(i), `{"spec":{"taints":[{"key":"example.com/broken","effect":"NoSchedule"}]}}`)
	}
	s.Create(builder.Claim("nothing").Template())
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		s.Create(s.Pod(name, builder.FromTemplate("nothing")))
		s.Running(name)
	}
}

// patchNode changes a node with a strategic merge patch.
func (s *space) patchNode(name, patch string) {
	s.T.Helper()
	node, err := cluster.Client.CoreV1().Nodes().Patch(s.T.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.T, err)
	require.Equal(s.T, name, node.Name)
}
