package extended

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestAsksFor(t *testing.T) {
	t.Parallel()
	named, unnamed := builder.Class("gpu"), builder.Class("gpu")
	named.Spec.ExtendedResourceName = ptr.To(gpuResource)
	pod := builder.Pod("p", builder.Container("main", gpuResource, "1"))
	require.True(t, AsksFor(pod, named))
	require.False(t, AsksFor(pod, unnamed))
	require.True(t, AsksFor(builder.Pod("p", builder.InitContainer("init", implicitGPU, "1"), builder.Container("main")), unnamed))
	require.False(t, AsksFor(builder.Pod("p", builder.Container("main", "cpu", "1")), named))
	named.Spec.ExtendedResourceName = ptr.To("cpu.example.com/x")
	require.False(t, AsksFor(pod, named))
}
