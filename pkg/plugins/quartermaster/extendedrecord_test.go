package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// An API server that does not know the field in the pod's status must not get pods that
// need it onto nodes where devices would serve them.
func TestExtendedResourcesOnAnOldServer(t *testing.T) {
	t.Parallel()
	inCluster(t, append(servedNodes(1, "n1"), offering("n2", gpuResource, "4")), func(t *testing.T, f *fixture) {
		f.pl.storesExtended = func() bool { return false }
		a := f.mustBegin(gpuPod("p", "1")).filter()
		require.Equal(t, []string{"n2"}, a.feasible, "where a device plugin offers it, nothing has to be recorded")
		require.Contains(t, a.reasons["n1"], "the API server is too old")
		require.Contains(t, a.reasons["n1"], "use a ResourceClaim")
	})
}

// A server that drops the field says nothing. The pod is not bound, and nothing stays.
func TestExtendedStatusIsDropped(t *testing.T) {
	t.Parallel()
	inCluster(t, servedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		f.server.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &v1.Pod{}, nil
		})
		pod := gpuPod("p", "1")
		f.create(pod)
		result := f.schedule(pod)
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "has stored")
		require.Contains(t, result.text(), "DRAExtendedResource")
		f.settle()
		require.Empty(t, f.claimsFor(pod.UID))
		require.Empty(t, f.inUse("n1"))
	})
}
