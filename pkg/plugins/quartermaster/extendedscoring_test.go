package quartermaster

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// managed returns the devices that are in use as NodeResourcesFit sees it, sorted.
func (f *fixture) managed() []string {
	state, err := f.pl.scoring.Claims.GatherAllocatedState()
	require.NoError(f.t, err)
	var devices []string
	for id := range state.AllocatedDevices {
		devices = append(devices, id.Pool.String()+"/"+id.Device.String())
	}
	slices.Sort(devices)
	return devices
}

// TestScoringSeesWhatIsInFlight: from Reserve on, at every step, and not after a failure.
func TestScoringSeesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	inCluster(t, append(servedNodes(3, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		plain := f.mustBegin(newPod("plain", uses("c"))).filter()
		require.NoError(t, plain.reserve("n1").AsError())
		require.Empty(t, f.managed(), "nobody looks")
		plain.unreserve("n1")

		pod := gpuPod("p", "2", uses("c"))
		f.create(pod)
		a := f.mustBegin(pod).filter()
		require.NoError(t, a.reserve("n1").AsError())
		all := []string{"n1/gpu-0", "n1/gpu-1", "n1/gpu-2"}
		require.Equal(t, all, f.managed())
		a.unreserve("n1")
		require.Empty(t, f.managed())

		require.NoError(t, a.reserve("n1").AsError())
		f.fail(fault{on: "patch/status", before: func() { require.Equal(t, all, f.managed(), "everything was written") }})
		require.NoError(t, a.preBind("n1").AsError())
		require.Equal(t, all, f.managed())
		f.settle()
		time.Sleep(2 * extendedresource.ManagerInterval)
		f.settle()
		require.Equal(t, all, f.managed())
		require.Nil(t, f.pl.scoring.Claims.GetPendingAllocation(f.claim("c").UID), "the manager has it from the informer")

		a.unreserve("n1")
		f.settle()
		require.Empty(t, f.managed())
	})
}

// TestScoringWithLateInformer: the claim was created and bound before the manager hears of
// it. Until then it stays in flight there.
func TestScoringWithLateInformer(t *testing.T) {
	t.Parallel()
	inCluster(t, servedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		written := with(extendedresource.NewClaim(gpuPod("p", "1")), allocate("n1", "gpu-0"), func(claim *resourceapi.ResourceClaim) {
			claim.ResourceVersion = "2000000"
		})
		f.pl.scoring.Begin()
		told := f.pl.scoring.InFlight(extendedresource.NewClaim(gpuPod("p", "1")), written.Status.Allocation, false)
		f.pl.scoring.Written(told, written)
		time.Sleep(3 * extendedresource.ManagerInterval)
		require.Equal(t, []string{"n1/gpu-0"}, f.managed())

		early := written.DeepCopy()
		early.ResourceVersion, early.Status = "1999999", resourceapi.ResourceClaimStatus{}
		f.assume.OnAdd(early, false)
		time.Sleep(2 * extendedresource.ManagerInterval)
		require.Equal(t, []string{"n1/gpu-0"}, f.managed(), "the later state counts")
		f.assume.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/" + written.Name, Obj: written})
		require.Empty(t, f.managed(), "nothing is in flight any more")
	})
}
