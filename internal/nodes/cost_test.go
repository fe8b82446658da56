package nodes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	nodescore "github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestCostOfNodes: what is no price counts as 1, and no node in use costs as much as an unused one.
func TestCostOfNodes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	node := builder.Node("n")
	for text, want := range map[string]float64{
		"2.5": 2.5, "0.001": 0.001, "1e3": 1e3, "": 1, "much": 1, "0": 1, "-1": 1, "NaN": 1, "Inf": 1e6, "1e300": 1e6, "1e999": 1, "1m": 1, "0x1p-1": 0.5,
	} {
		node.Labels["cost"] = text
		require.InDelta(t, want, nodescore.Cost(node, "cost", noderesources.InUse, now), 1e-9, text)
		require.InDelta(t, 1, nodescore.Cost(node, "", noderesources.InUse, now), 0)
		require.Greater(t, nodescore.Cost(node, "cost", 0, now), 2e6, text)
	}
	delete(node.Labels, "cost")
	require.InDelta(t, 1, nodescore.Cost(node, "cost", noderesources.InUse, now), 0)
	node.Labels["cost"] = "0.002"
	cheap := nodescore.Cost(node, "cost", 0, now)
	node.Labels["cost"] = "0.001"
	require.Less(t, nodescore.Cost(node, "cost", 0, now), cheap, "unused nodes differ as well")
}

// TestOldNodesCostLess: nodes cost the less, the longer they are in use, also with clocks that differ; nodes of nearly the same age
// cost the same.
func TestOldNodesCostLess(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	cost := func(age int64) float64 { return nodescore.Cost(builder.Node("n"), "cost", now.Unix()-age, now) }
	require.InDelta(t, 1, cost(-5), 0)
	require.InDelta(t, 1, cost(0), 0)
	require.InDelta(t, 1.0/8, cost(10), 0)
	require.Equal(t, cost(3000), cost(3600))
	require.Less(t, cost(30_000), cost(3600))
	require.Positive(t, cost(1e9-1))
	for age := int64(1); age < 1e9; age *= 2 {
		require.LessOrEqual(t, cost(age), cost(age/2))
	}
}

// TestLeft is about the scarcer resource, of nodes that do not report one of them as well.
func TestLeft(t *testing.T) {
	t.Parallel()
	room := noderesources.Resources{MilliCPU: 6000, Memory: 8 << 30}
	pod := noderesources.Resources{MilliCPU: 2000, Memory: 6 << 30}
	node := builder.Node("n")
	node.Status.Allocatable = builder.Resources("cpu", "8", "memory", "16Gi")
	require.InDelta(t, 0.125, nodescore.Left(node, room, pod), 1e-9)
	pod.Memory = 1 << 30
	require.InDelta(t, 7.0/16, nodescore.Left(node, room, pod), 1e-9)
	pod.MilliCPU = 7000
	require.Zero(t, nodescore.Left(node, room, pod))
	node.Status.Allocatable = builder.Resources("cpu", "8")
	require.Zero(t, nodescore.Left(node, room, pod))
}
