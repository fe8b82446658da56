package extended

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestNodesOfOneKindShareATask: what the search has to know about the pod is worked out
// once for all nodes that lack the same.
func TestNodesOfOneKindShareATask(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p", builder.Container("main", gpuResource, "1"))
	d := NewDemand(pod, []Resource{{gpuResource, builder.Class("gpu")}}, nil)
	tasks := 0
	d.Prepare(nil, func([]*resourceapi.ResourceClaim) *allocator.Task { tasks++; return &allocator.Task{} }, true)
	on := func(node string, gpus int64) *Variant {
		variant, err := d.VariantOn(node, map[v1.ResourceName]int64{gpuResource: gpus})
		require.NoError(t, err)
		return variant
	}
	require.Same(t, d.Full(), on("n1", 0))
	require.Same(t, d.Full(), on("n3", 0))
	offered := on("n4", 1)
	require.NotSame(t, d.Full(), offered)
	require.Same(t, offered, on("n5", 2))
	require.Nil(t, offered.Task, "nothing to allocate")
	require.Len(t, d.Full().Claims, 1)
	require.Equal(t, 1, tasks)

	_, err := d.Choose("n2")
	require.ErrorContains(t, err, "not checked for devices")
	require.False(t, d.Leave())
	chosen, err := d.Choose("n4")
	require.NoError(t, err)
	require.Same(t, offered, chosen)
	require.Same(t, offered, d.Chosen())
	require.True(t, d.Leave())
	require.Nil(t, d.Chosen())
}

// TestRecordedClaimIsNeeded: a pod whose status names a claim fits no node where it would get none.
func TestRecordedClaimIsNeeded(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p", builder.Container("main", gpuResource, "1"))
	require.NoError(t, CheckRecorded(pod))
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gone"}
	d := NewDemand(pod, []Resource{{gpuResource, builder.Class("gpu")}}, nil)
	d.Prepare(nil, nil, true)
	_, err := d.VariantOn("backed", nil)
	require.NoError(t, err)
	_, err = d.VariantOn("offered", map[v1.ResourceName]int64{gpuResource: 1})
	require.ErrorContains(t, err, "claim gone")
	require.NotContains(t, err.Error(), ",", "kube-scheduler joins reasons with commas")
}
