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
	rooms := noderesources.Rooms{Devices: prefix("gpu")}
	beside := func(nodes ...*framework.NodeInfo) float64 {
		var infos []fwk.NodeInfo
		for _, n := range nodes {
			infos = append(infos, n)
		}
		rooms.Follow(infos)
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

// prefix is the prefix of the names of nodes with devices.
type prefix string

func (p prefix) IsLocal(node string) bool { return strings.HasPrefix(node, string(p)) }
