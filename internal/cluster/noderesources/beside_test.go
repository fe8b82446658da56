package noderesources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestBeside: what counts are pods on nodes with devices, and of these only those that could be elsewhere.
func TestBeside(t *testing.T) {
	t.Parallel()
	withDevices := func(name, cpu string) *v1.Pod {
		pod := podOf(name, cpu, "1Gi")
		pod.Spec.ResourceClaims = b.Uses("c")
		return pod
	}
	extended := podOf("e", "1", "1Gi")
	extended.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{}
	daemon := podOf("d", "3", "1Gi")
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
	gpu1, gpu2, plain := nodeInfo("gpu-1"), nodeInfo("gpu-2", daemon), nodeInfo("plain", podOf("x", "8", "1Gi"))
	rooms := noderesources.Free{Devices: prefix("gpu")}
	beside := func(nodes ...*framework.NodeInfo) float64 {
		var infos []fwk.NodeInfo
		for _, n := range nodes {
			infos = append(infos, n)
		}
		rooms.Follow(infos, false)
		return rooms.Beside()
	}
	require.Zero(t, beside(gpu1, gpu2, plain), "there are no pods with devices")
	gpu1.AddPod(withDevices("p", "3"))
	gpu2.AddPod(extended)
	require.Zero(t, beside(gpu1, gpu2, plain), "no pods without devices, but those of a daemon set")
	gpu2.AddPod(podOf("y", "2", "1Gi"))
	require.Equal(t, 0.5, beside(gpu1, gpu2, plain), "2 cores for 4")
	gpu1.AddPod(podOf("z", "2", "1Gi"))
	require.Equal(t, 1.0, beside(gpu1, gpu2, plain))
	rooms.Devices = nil
	require.Equal(t, 1.0, beside(gpu1, gpu2, plain), "nothing changed")
}

// TestSince: a node is in use since its first pod started that could be elsewhere.
func TestSince(t *testing.T) {
	t.Parallel()
	started := func(name, owner string, second int64) *v1.Pod {
		pod := podOf(name, "1", "1Gi")
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "o", Controller: ptr.To(true)}}
		}
		if second != 0 {
			pod.Status.StartTime = ptr.To(metav1.Unix(second, 0))
		}
		return pod
	}
	node := nodeInfo("n")
	for _, step := range []struct {
		pod  *v1.Pod
		want int64
	}{
		{started("daemon", "DaemonSet", 10), 0},
		{started("static", "Node", 11), 0},
		{started("new", "Job", 0), noderesources.InUse},
		{started("web", "ReplicaSet", 30), 30},
		{started("older", "", 20), 20},
		{started("younger", "", 40), 20},
		{started("wrong", "", -5), 1},
	} {
		node.AddPod(step.pod)
		require.Equal(t, step.want, noderesources.On(node).Since, step.pod.Name)
	}
}

// prefix is the prefix of the names of nodes with devices.
type prefix string

func (p prefix) IsLocal(node string) bool { return strings.HasPrefix(node, string(p)) }
