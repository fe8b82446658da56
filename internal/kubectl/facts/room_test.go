package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func advice(t *testing.T, o *whatif.Objects, pod *v1.Pod) *Advice {
	t.Helper()
	found, err := RoomFor(t.Context(), whatif.New(*o, whatif.Options{}), pod)
	require.NoError(t, err)
	return found
}

func gpus(name string, count int64) *builder.ClaimBuilder {
	return builder.Claim(name, builder.Request("gpu", builder.Driver).Count(count))
}

// What has to stay stays; and what was not tried is not known.
func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	o := numaWorld(2, 4)
	holding(o, "a", "node-0", gpus("a", 1), "gpu-0")
	holding(o, "b", "node-0", gpus("b", 1), "gpu-1")
	holding(o, "c", "node-1", gpus("c", 1), "gpu-0")
	whole := wanting(o, "whole", gpus("whole", 4))
	require.Equal(t, []Move{{Pod: "default/c", From: "node-1", To: "node-0"}}, advice(t, o, whole).Moves)

	daemons := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "daemons"}}
	o.Pods[2].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(daemons, v1.SchemeGroupVersion.WithKind("DaemonSet"))}
	found := advice(t, o, whole)
	require.Equal(t, []Move{{Pod: "default/a", From: "node-0", To: "node-1"}, {Pod: "default/b", From: "node-0", To: "node-1"}}, found.Moves)
	require.True(t, found.Fewest)
	require.Equal(t, 1, found.Unmovable)

	bounded, err := room(t.Context(), whatif.New(*o, whatif.Options{}), whole, 4)
	require.NoError(t, err)
	require.Equal(t, []any{"", false}, []any{bounded.Node, bounded.Fewest})
}

// A pod may restart on its own node with other devices.
func TestMoveWithinANode(t *testing.T) {
	t.Parallel()
	o := numaWorld(1, 4)
	holding(o, "a", "node-0", gpus("a", 1), "gpu-0")
	holding(o, "b", "node-0", gpus("b", 1), "gpu-3")
	pair := wanting(o, "pair", gpus("pair", 2).Match("gpu.example.com/numa"))
	found := advice(t, o, pair)
	require.Equal(t, []Move{{Pod: "default/a", From: "node-0", To: "node-0"}}, found.Moves)
	require.True(t, found.Fewest)
}

// Pods without devices are in the way if CPU is the scarce resource.
func TestMoveForCPU(t *testing.T) {
	t.Parallel()
	o := numaWorld(2, 2)
	o.Pods = append(o.Pods, builder.Pod("web", builder.Container("main", "cpu", "7500m"), func(p *v1.Pod) { p.Spec.NodeName = "node-0" }))
	holding(o, "a", "node-1", gpus("a", 2), "gpu-0", "gpu-1").Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "500m")
	require.Equal(t, []Move{{Pod: "default/web", From: "node-0", To: "node-1"}}, advice(t, o, wanting(o, "new", gpus("new", 2))).Moves)
}

// Devices that several nodes reach are held by pods elsewhere.
func TestMoveFromAnotherNode(t *testing.T) {
	t.Parallel()
	o := numaWorld(3, 0)
	o.Slices = []*resourceapi.ResourceSlice{
		builder.Slice("fabric").OnLabeled("rack", "1").Devices(builder.Device("far")).Obj(), builder.NodeSlice("node-2", builder.Device("near")).Obj(),
	}
	o.Nodes[0].Labels["rack"], o.Nodes[1].Labels["rack"] = "1", "1"
	holding(o, "a", "node-1", gpus("a", 1), "far")
	o.Claims[0].Status.Allocation.Devices.Results[0].Pool = "fabric"
	pod := wanting(o, "new", gpus("new", 1))
	pod.Spec.NodeSelector = map[string]string{"rack": "1"}
	found := advice(t, o, pod)
	require.Equal(t, []Move{{Pod: "default/a", From: "node-1", To: "node-2"}}, found.Moves)
	require.Equal(t, "node-0", found.Node)
}
