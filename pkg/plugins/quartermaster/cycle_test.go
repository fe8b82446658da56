package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

func TestNamedClaimGetsDevicesOnTheNode(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(2, "n1"), gpus("c", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		result := f.schedule(newPod("p", uses("c")))
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n1", result.node)

		claim := f.claim("c")
		require.Equal(t, []string{"n1/gpu-0"}, devicesOf(claim))
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{consumer("p")}, claim.Status.ReservedFor)
		require.Equal(t, []string{resourceapi.Finalizer}, claim.Finalizers)
	})
}
