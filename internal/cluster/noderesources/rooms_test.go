package noderesources_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func list(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func nodeInfo(name string, pods ...*v1.Pod) *framework.NodeInfo {
	node := b.Node(name)
	node.Status.Allocatable = list("8", "16Gi")
	node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("3")
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

func podOf(name, cpu, memory string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name = name
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list(cpu, memory)}}}
	return pod
}

func changed(t *testing.T, rooms *noderesources.Free, position *uint64) []string {
	t.Helper()
	names, end, complete := rooms.Changed.Since(*position)
	require.True(t, complete)
	*position = end
	return names
}

func TestRooms(t *testing.T) {
	t.Parallel()
	var rooms noderesources.Free
	var position uint64
	one, two := nodeInfo("n1"), nodeInfo("n2", podOf("a", "2", "4Gi"))
	nodes := []fwk.NodeInfo{one, two}
	rooms.Follow(nodes, false)
	require.Equal(t, []string{"n1", "n2"}, changed(t, &rooms, &position))
	room, known := rooms.At("n2")
	require.True(t, known)
	require.Equal(t, noderesources.Resources{MilliCPU: 6000, Memory: 12 << 30, Pods: 2, Since: noderesources.InUse}, room)
	_, known = rooms.At("n3")
	require.False(t, known)

	rooms.Follow(nodes, false)
	require.Empty(t, changed(t, &rooms, &position))

	one.AddPod(podOf("b", "1", "1Gi"))
	rooms.Follow(nodes, false)
	require.Equal(t, []string{"n1"}, changed(t, &rooms, &position))

	one.SetNode(one.Node()) // Something else about it changes.
	rooms.Follow(nodes, false)
	require.Empty(t, changed(t, &rooms, &position))

	rooms.Follow([]fwk.NodeInfo{two}, false)
	rooms.Follow([]fwk.NodeInfo{two, one, nodeInfo("n3")}, false)
	require.Equal(t, []string{"n3"}, changed(t, &rooms, &position), "another order is no change")
}

// TestSettled: what a dry run changes does not count for the settled room, and what has changed for good does, also if a dry run saw it
// first.
func TestSettled(t *testing.T) {
	t.Parallel()
	var rooms noderesources.Free
	node, tried := nodeInfo("n1"), podOf("a", "2", "4Gi")
	tried.UID = "a"
	nodes := []fwk.NodeInfo{node}
	free := func(want, settled int64) {
		t.Helper()
		room, _ := rooms.At("n1")
		require.Equal(t, want, room.MilliCPU)
		room, known := rooms.Settled("n1")
		require.True(t, known)
		require.Equal(t, settled, room.MilliCPU)
	}
	rooms.Follow(nodes, true)
	free(8000, 8000)
	node.AddPod(tried)
	rooms.Follow(nodes, true)
	free(6000, 8000)
	require.NoError(t, node.RemovePod(klog.Background(), tried))
	rooms.Follow(nodes, false)
	free(8000, 8000)
	node.AddPod(tried) // For good, but seen in a dry run first.
	rooms.Follow(nodes, true)
	free(6000, 8000)
	rooms.Follow(nodes, true)
	free(6000, 8000)
	rooms.Follow(nodes, false)
	free(6000, 6000)
	_, known := rooms.Settled("n2")
	require.False(t, known)
}

// TestPodsThatEnded: the settled room has that of pods that have ended since the snapshot, until the next one shows it.
func TestPodsThatEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rooms noderesources.Free
		first, second := podOf("a", "2", "4Gi"), podOf("b", "1", "1Gi")
		first.UID, second.UID = "a", "b"
		node := nodeInfo("n1", first, second)
		rooms.Follow([]fwk.NodeInfo{node}, false)
		settled := func(milliCPU int64, pods int) {
			t.Helper()
			room, _ := rooms.Settled("n1")
			require.Equal(t, milliCPU, room.MilliCPU)
			require.Equal(t, pods, room.Pods)
		}
		ended := func(pod *v1.Pod) *v1.Pod {
			pod = pod.DeepCopy()
			pod.Status.Phase = v1.PodSucceeded
			return pod
		}
		for _, pod := range []*v1.Pod{first, second} {
			pod.Spec.NodeName = "n1"
			rooms.PodChanged(nil, pod)
			rooms.PodChanged(pod, pod)
		}
		settled(5000, 1)
		rooms.PodChanged(first, ended(first))
		rooms.PodChanged(ended(first), nil)
		settled(7000, 2)
		rooms.PodChanged(second, nil)
		settled(8000, 3)
		require.NoError(t, node.RemovePod(klog.Background(), first))
		rooms.Follow([]fwk.NodeInfo{node}, false)
		settled(7000, 2)
		rooms.PodChanged(second, nil)
		time.Sleep(4 * time.Second)
		settled(8000, 3)
		time.Sleep(time.Second)
		settled(7000, 2)
		second.Spec.NodeName = "n2"
		rooms.PodChanged(second, nil) // Nobody has looked at this node.
	})
}

// TestForgetsNodes that are gone, but not all at once.
func TestForgetsNodes(t *testing.T) {
	t.Parallel()
	var rooms noderesources.Free
	for i := range 1100 {
		rooms.Follow([]fwk.NodeInfo{nodeInfo(fmt.Sprintf("n%d", i))}, false)
	}
	_, known := rooms.At("n0")
	require.False(t, known)
	_, known = rooms.At("n1099")
	require.True(t, known)
}

func TestHolds(t *testing.T) {
	t.Parallel()
	free := noderesources.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1}
	require.True(t, free.Holds(noderesources.Of(podOf("p", "1", "1Gi"))))
	require.False(t, free.Holds(noderesources.Of(podOf("p", "1001m", "1Gi"))))
	require.False(t, free.Holds(noderesources.Of(podOf("p", "1", "2Gi"))))
	full := noderesources.Resources{MilliCPU: -100, Memory: -1, Pods: 1}
	require.True(t, full.Holds(noderesources.Of(podOf("p", "0", "0"))), "who asks for nothing")
	full.Pods = 0
	require.False(t, full.Holds(noderesources.Of(podOf("p", "0", "0"))))
}
