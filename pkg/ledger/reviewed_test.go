package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// review puts the allocation of a claim by another scheduler in flight.
func review(l *ledger.Ledger, claim *resourceapi.ResourceClaim) error {
	return l.AddReviewed(ledger.RefTo(claim), "guard", claim.Status.Allocation, l.State(claim.UID))
}

// The allocation was not checked before, so allocations that no scheduler writes are refused here.
func TestAllocationsThatNoSchedulerMakes(t *testing.T) {
	t.Parallel()
	devices := func(names ...string) *resourceapi.ResourceClaim { return b.Claim("x").Allocated("p", names...) }
	withShare := func(claim *resourceapi.ResourceClaim, i int) *resourceapi.ResourceClaim {
		claim.Status.Allocation.Devices.Results[i].ShareID = ptr.To(types.UID("share"))
		return claim
	}
	with := func(claim *resourceapi.ResourceClaim, change func(*resourceapi.DeviceRequestAllocationResult)) *resourceapi.ResourceClaim {
		change(&claim.Status.Allocation.Devices.Results[0])
		return claim
	}
	for name, test := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string // "" if it is allowed
	}{
		"shares":                                {share("x", "4", "3"), ""},
		"the whole of a shared device":          {devices("nic"), ""},
		"a share of a device without capacity":  {withShare(devices("bare"), 0), ""},
		"a share that does not say of how much": {share("x", "4", ""), "a share of it that does not say how much it consumes of capacity bandwidth"},
		"a share of less than nothing":          {share("x", "-1"), "consumes -1 of capacity bandwidth which is less than nothing"},
		"less than nothing of what is not there": {with(share("x", "1"), func(r *resourceapi.DeviceRequestAllocationResult) {
			r.ConsumedCapacity["later"] = resource.MustParse("-100")
		}), "consumes -100 of capacity later which is less than nothing"},
		"a share of a device for one claim":     {withShare(devices("gpu"), 0), "its driver does not allow multiple allocations of that device"},
		"a device twice":                        {devices("gpu", "other", "gpu"), "but has it for another request already"},
		"a device as a whole and a share of it": {withShare(devices("bare", "bare"), 0), "but has it for another request already"},
		"a share of it and a device as a whole": {withShare(devices("bare", "bare"), 1), "but has it for another request already"},
		"a device once, and with admin access":  {with(devices("gpu", "gpu"), func(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledgerOf(b.Slice("p").OnNode("a").Devices(
				b.Device("nic").Shared().Capacity("bandwidth", "10"), b.Device("bare").Shared(), b.Device("gpu"), b.Device("other")))
			err := review(l, test.claim)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "claim default/x was to get device")
			require.ErrorContains(t, err, "; see what has allocated it")
			require.Zero(t, l.InFlightCount())
		})
	}
}

// A number of a billion digits is not calculated with.
func TestEndlessShare(t *testing.T) {
	t.Parallel()
	l := ledgerOf(b.Slice("p").OnNode("a").Devices(b.Device("nic").Shared().Capacity("bandwidth", "10")))
	require.ErrorContains(t, review(l, share("x", "1e999999999")), "bandwidth")
	refresh(l, "y", share("y", "1e999999999")) // From before there was a guard.
	require.ErrorContains(t, review(l, share("x", "1")), "bandwidth")
}

// Between a look at a claim and the allocation, the watch may show another state of it: an allocation,
// beside which what is in flight would not count until it goes.
func TestClaimChangesBeforeItIsReviewed(t *testing.T) {
	t.Parallel()
	l := ledgerOf(b.NodeSlice("a", b.Devices("gpu-0", "gpu-1")...))
	x := b.Claim("x").Allocated("a", "gpu-1")
	refresh(l, "x", versioned(b.Claim("x").Obj(), 3))
	looked := l.State("uid-x")
	refresh(l, "x", versioned(b.Claim("x").Allocated("a", "gpu-0"), 4))
	require.ErrorIs(t, l.AddReviewed(ledger.RefTo(x), "guard", x.Status.Allocation, looked), ledger.ErrChanged)
	require.Zero(t, l.InFlightCount())
	refresh(l, "x", versioned(b.Claim("x").Obj(), 5))
	require.NoError(t, review(l, x))
}

// Who has planned an allocation may have put it in flight when its pool was not complete: it was not
// judged then.
func TestPlanIsJudgedWhenItIsReviewed(t *testing.T) {
	t.Parallel()
	l := ledgerOf(partitions()...)
	complete := l.Pools
	l.Pools = ledgerOf(partitions()[:2]...).Pools
	x, y := b.Claim("x").Allocated("p", "whole"), b.Claim("y").Allocated("p", "half-0")
	require.NoError(t, l.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
	require.NoError(t, l.AddInFlight(ledger.RefTo(y), "pod", y.Status.Allocation))
	var unpublished *ledger.UnpublishedError
	require.ErrorAs(t, review(l, x), &unpublished)
	l.Pools = complete
	require.ErrorContains(t, review(l, x), "too little is left of counter")
	l.RemoveInFlight("uid-y", "pod")
	require.NoError(t, review(l, x))
}

// A claim may be deallocated and get a share of another size, and the watch only shows the end.
func TestShareOfAnotherSize(t *testing.T) {
	t.Parallel()
	l := ledgerOf(b.Slice("p").OnNode("a").Devices(b.Device("nic").Shared().Capacity("bandwidth", "10")))
	refresh(l, "x", versioned(share("x", "4"), 1))
	l.Refresh("default/x", func() *resourceapi.ResourceClaim { return versioned(share("x", "8"), 2) })
	require.Error(t, review(l, share("y", "4")))
	freed := l.Refresh("default/x", func() *resourceapi.ResourceClaim { return versioned(share("x", "4"), 3) })
	require.Len(t, freed, 1)
	require.NoError(t, review(l, share("y", "4")))
}
