package trace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

func TestDraw(t *testing.T) {
	t.Parallel()
	nodes, tasks := trace.Draw(1, 42)
	require.Len(t, nodes, 1213)
	require.Equal(t, 6212*trace.WholeGPU, trace.Capacity(nodes))
	asked := 0
	for _, task := range tasks {
		asked += task.Asked()
	}
	require.InDelta(t, 1.3, float64(asked)/float64(trace.Capacity(nodes)), 0.01)

	again, sameTasks := trace.Draw(1, 42)
	require.Equal(t, nodes, again)
	require.Equal(t, tasks, sameTasks)
	_, others := trace.Draw(1, 43)
	require.NotEqual(t, tasks, others)
	few, _ := trace.Draw(16, 42)
	require.Len(t, few, 76)
}
