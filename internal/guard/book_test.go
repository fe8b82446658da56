package guard

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// board is a Book in its tenure with what is published, and what the watch of claims has shown.
type board struct {
	*Book
	t      *testing.T
	slices *inventory.Store
	// looked is called at each look at a pool; it may be nil.
	looked func()
	claims map[string]*resourceapi.ResourceClaim
}

var tenure = time.Unix(1, 0)

func newBoard(t *testing.T, published ...*b.SliceBuilder) *board {
	t.Helper()
	w := &board{t: t, slices: inventory.NewStore(inventory.Options{PartitionableDevices: true, CompatibilityGroups: true}), claims: make(map[string]*resourceapi.ResourceClaim)}
	pools := func(id inventory.PoolID) *inventory.NodePool {
		if w.looked != nil {
			w.looked()
		}
		if pool := w.slices.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	held := ledger.New()
	held.Follow(w.slices)
	held.Pools = pools
	w.Book = NewBook(held)
	for _, slice := range published {
		w.publish(slice.Obj())
	}
	w.Decide(tenure)
	return w
}

func (w *board) publish(slice *resourceapi.ResourceSlice) {
	w.slices.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
}

// at is a claim at a version.
func at(version int, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	claim.ResourceVersion = strconv.Itoa(version)
	return claim
}

func empty(name string) *resourceapi.ResourceClaim { return b.Claim(name).Obj() }

// watch shows the claim, as an event of the watch does; nil if it was deleted.
func (w *board) watch(name string, claim *resourceapi.ResourceClaim) {
	w.ledger.Refresh("default/"+name, func() *resourceapi.ResourceClaim { return claim })
	w.Seen("default/" + name)
}

// ask asks for what the claim has to be stored, on top of a version of it which the API server has.
func (w *board) ask(version int, claim *resourceapi.ResourceClaim) Answer {
	return w.Review(tenure, &Request{Claim: ledger.RefTo(claim), Version: strconv.Itoa(version), After: claim.Status.Allocation, Requests: claim.Spec.Devices.Requests, Confirmed: true})
}

func (w *board) requireAllowed(version int, claim *resourceapi.ResourceClaim) {
	w.t.Helper()
	require.Equal(w.t, Allowed, w.ask(version, claim).Kind)
}

func (w *board) requireDenied(reason string, version int, claim *resourceapi.ResourceClaim) {
	w.t.Helper()
	answer := w.ask(version, claim)
	require.Equal(w.t, Denied, answer.Kind, answer.Reason)
	require.Contains(w.t, answer.Reason, reason)
}

func node() *b.SliceBuilder { return b.NodeSlice("a", b.Devices("gpu-0", "gpu-1")...) }

func TestSecondHolderIsDenied(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("early", at(3, b.Claim("early").Allocated("a", "gpu-0")))
	w.requireDenied("claim default/x was to get device gpu.example.com/a/gpu-0 but claim default/early holds it by now", 4, b.Claim("x").Allocated("a", "gpu-0"))
	w.requireAllowed(5, b.Claim("x").Allocated("a", "gpu-1"))
	w.requireDenied("but claim default/x holds it by now", 6, b.Claim("y").Allocated("a", "gpu-1"))
	require.Len(t, w.Approvals(), 1)
}

func TestApprovalEndsWhenTheClaimHasChanged(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(3, empty("x")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	w.watch("x", at(3, empty("x")))
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0"))
	w.watch("x", at(9, empty("x"))) // Somebody has added a finalizer: what rests on 3 is refused.
	require.Empty(t, w.Approvals())
	w.requireAllowed(4, b.Claim("y").Allocated("a", "gpu-0"))
	w.watch("y", at(10, b.Claim("y").Allocated("a", "gpu-0")))
	require.Empty(t, w.Approvals())
	w.requireDenied("default/y holds it", 9, b.Claim("x").Allocated("a", "gpu-0"))
}

func TestApprovalEndsWithItsClaim(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(3, empty("x")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	w.watch("x", nil)
	require.Empty(t, w.Approvals())
	// One that the watch has never shown, and never will.
	w.requireAllowed(4, b.Claim("y").Allocated("a", "gpu-0"))
	w.Gone("uid-y")
	require.Empty(t, w.Approvals())
	w.requireAllowed(5, b.Claim("z").Allocated("a", "gpu-0"))
}

func TestFence(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(3, empty("x")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	w.Fenced(w.Approvals()[0], "7")
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0")) // It may have been stored before.
	w.watch("x", at(7, empty("x")))
	w.requireAllowed(4, b.Claim("y").Allocated("a", "gpu-0"))

	// A version that the claim never had: any client may ask.
	w.requireAllowed(1000, b.Claim("x").Allocated("a", "gpu-1"))
	approval := Approval{}
	for _, a := range w.Approvals() {
		if a.Claim.Name == "x" {
			approval = a
		}
	}
	w.Fenced(approval, "7")
	w.requireAllowed(5, b.Claim("z").Allocated("a", "gpu-1"))
}

func TestRenewedApprovalIsNotFenced(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	before := w.Approvals()[0]
	w.requireAllowed(7, b.Claim("x").Allocated("a", "gpu-0")) // The server asks again, on what it has now.
	w.Fenced(before, "7")
	w.watch("x", at(7, empty("x")))
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0"))
}

func TestOneClaimTwoAllocations(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(3, empty("x")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	w.requireDenied("another allocation of claim default/x was approved a moment ago", 3, b.Claim("x").Allocated("a", "gpu-1"))
	require.Equal(t, AwaitClaim, w.ask(5, b.Claim("x").Allocated("a", "gpu-1")).Kind, "the claim has changed, which is not known here")
	w.watch("x", at(5, empty("x")))
	w.requireAllowed(5, b.Claim("x").Allocated("a", "gpu-1"))
}

func TestOldAndNewVersions(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(8, b.Claim("x").Allocated("a", "gpu-0")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-1")) // The server finds out by itself.
	require.Empty(t, w.Approvals())
	require.Equal(t, AwaitClaim, w.ask(9, b.Claim("x").Allocated("a", "gpu-1")).Kind, "it was deallocated, which is not known here")
	w.watch("x", at(9, empty("x")))
	w.requireAllowed(9, b.Claim("x").Allocated("a", "gpu-1"))
}

func TestWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node(), b.Slice("half").InPool("half", 1, 2).OnNode("a").Devices(b.Device("gpu-0")))
	for want, claim := range map[string]*resourceapi.ResourceClaim{
		"publishes no such pool":                                 b.Claim("x").Allocated("b", "gpu-0"),
		"does not publish it there":                              b.Claim("x").Allocated("a", "gpu-7"),
		"incomplete: 1 of 2 slices of generation 1 is published": b.Claim("x").Allocated("half", "gpu-0"),
	} {
		answer := w.ask(1, claim)
		require.Equal(t, AwaitPool, answer.Kind)
		require.Contains(t, answer.Reason, want)
	}
	w.publish(b.NodeSlice("b", b.Device("gpu-0")).Obj())
	w.requireAllowed(1, b.Claim("x").Allocated("b", "gpu-0"))
}

func TestSharesAndCounters(t *testing.T) {
	t.Parallel()
	w := newBoard(t,
		b.NodeSlice("a", b.Device("nic").Shared().Capacity("bandwidth", "2")),
		b.Slice("mig-counters").OnNode("a").InPool("mig", 1, 2).Counters("whole", "memory", "1"),
		b.Slice("mig-devices").OnNode("a").InPool("mig", 1, 2).Devices(b.Device("part-0").Consumes("whole", "memory", "1"), b.Device("part-1").Consumes("whole", "memory", "1")))
	share := func(name string) *resourceapi.ResourceClaim {
		claim := b.Claim(name).Allocated("a", "nic")
		result := &claim.Status.Allocation.Devices.Results[0]
		result.ShareID = ptr.To(types.UID("share-" + name))
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("1")}
		return claim
	}
	w.requireAllowed(1, share("x"))
	w.requireAllowed(1, share("y"))
	w.requireDenied("too little is left of capacity bandwidth", 1, share("z"))
	w.requireDenied("holds it by now", 1, b.Claim("whole").Allocated("a", "nic"))
	w.requireAllowed(1, b.Claim("p").Allocated("mig", "part-0"))
	w.requireDenied("too little is left of counter whole/memory", 1, b.Claim("q").Allocated("mig", "part-1"))
	w.requireAllowed(1, asking(with(b.Claim("admin").Allocated("mig", "part-0"), adminAccess), true))
}

func adminAccess(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }

// asking has the claim's spec have the request of its first result, with admin access or without.
func asking(claim *resourceapi.ResourceClaim, admin bool) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
		Name: claim.Status.Allocation.Devices.Results[0].Request, Exactly: &resourceapi.ExactDeviceRequest{AdminAccess: &admin},
	}}
	return claim
}

// Admin access counts nothing: who has it without having asked for it could use what others have.
func TestAdminAccessThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.requireAllowed(1, b.Claim("x").Allocated("a", "gpu-0"))
	admin := func() *resourceapi.ResourceClaim { return with(b.Claim("admin").Allocated("a", "gpu-0"), adminAccess) }
	w.requireAllowed(1, asking(admin(), true))
	w.requireDenied("which does not ask for that", 2, asking(admin(), false))
	w.requireDenied("which does not ask for that", 2, admin())
	other := asking(admin(), true)
	other.Status.Allocation.Devices.Results[0].Request = "other"
	w.requireDenied("with admin access for request other, which does not ask for that", 2, other)
	of := asking(admin(), true)
	of.Status.Allocation.Devices.Results[0].Request += "/sub"
	w.requireDenied("which does not ask for that", 2, of)
}

// A pool may change at any time, also between two looks at it: what is not complete when it is judged
// is not judged.
func TestPoolChangesWhileReviewing(t *testing.T) {
	t.Parallel()
	counters := func(slices int64) *b.SliceBuilder {
		return b.Slice("mig-counters").OnNode("a").InPool("mig", 1, slices).Counters("whole", "memory", "1")
	}
	w := newBoard(t, counters(2),
		b.Slice("mig-devices").OnNode("a").InPool("mig", 1, 2).Devices(b.Device("part-0").Consumes("whole", "memory", "1"), b.Device("part-1").Consumes("whole", "memory", "1")))
	w.requireAllowed(1, b.Claim("p").Allocated("mig", "part-0"))
	for first := range 2 {
		looks := first
		w.looked = func() {
			looks++
			w.publish(counters(2 + int64(looks%2)).Obj())
		}
		require.NotEqual(t, Allowed, w.ask(1, b.Claim("q").Allocated("mig", "part-1")).Kind)
	}
}

func with(claim *resourceapi.ResourceClaim, change func(*resourceapi.DeviceRequestAllocationResult)) *resourceapi.ResourceClaim {
	change(&claim.Status.Allocation.Devices.Results[0])
	return claim
}

func TestWhatAllocatesNothingPasses(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	allocated := b.Claim("x").Allocated("a", "gpu-0")
	for _, r := range []*Request{
		{Claim: ledger.RefTo(allocated), Version: "3", Before: allocated.Status.Allocation},
		{Claim: ledger.RefTo(allocated), Version: "3", Before: allocated.Status.Allocation, After: allocated.DeepCopy().Status.Allocation},
		{Claim: ledger.RefTo(allocated), Version: "3"},
	} {
		require.Equal(t, Answer{}, w.Review(time.Time{}, r), "also by those who do not decide")
	}
	other := b.Claim("x").Allocated("a", "gpu-1")
	answer := w.Review(tenure, &Request{Claim: ledger.RefTo(allocated), Version: "3", Before: allocated.Status.Allocation, After: other.Status.Allocation})
	require.Equal(t, Denied, answer.Kind)
	require.Contains(t, answer.Reason, "it has to be deallocated before it can get other devices")
}

func TestDryRunHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	x := b.Claim("x").Allocated("a", "gpu-0")
	require.Equal(t, Answer{}, w.Review(tenure, &Request{Claim: ledger.RefTo(x), Version: "3", After: x.Status.Allocation, DryRun: true}))
	require.Empty(t, w.Approvals())
	w.requireAllowed(1, b.Claim("y").Allocated("a", "gpu-0"))
	require.Equal(t, Denied, w.Review(tenure, &Request{Claim: ledger.RefTo(x), Version: "3", After: x.Status.Allocation, DryRun: true}).Kind)
}

func TestTenure(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	x := b.Claim("x").Allocated("a", "gpu-0")
	request := &Request{Claim: ledger.RefTo(x), Version: "3", After: x.Status.Allocation, Confirmed: true}
	require.Equal(t, NotDeciding, w.Review(tenure.Add(time.Second), request).Kind, "the Lease was lost and is ours again; others have decided meanwhile")
	w.Decide(tenure.Add(time.Second))
	w.Decide(tenure) // A handover that was begun before.
	require.Equal(t, Allowed, w.Review(tenure.Add(time.Second), request).Kind)
	require.Equal(t, NotDeciding, w.Review(tenure, request).Kind)
}

// A scheduler that runs in the same process has its own plan in flight, and then asks as all do.
func TestOwnPlan(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	w.watch("x", at(3, empty("x")))
	x := b.Claim("x").Allocated("a", "gpu-0")
	require.NoError(t, w.ledger.AddInFlight(ledger.RefTo(x), "pod", x.Status.Allocation))
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0"))
	stamped := func(at int64) *resourceapi.ResourceClaim {
		claim := x.DeepCopy()
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Unix(at, 0)}
		return claim
	}
	w.requireAllowed(3, stamped(1))
	w.requireAllowed(3, stamped(2)) // The answer got lost.
	w.ledger.RemoveInFlight("uid-x", "pod")
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0"))
	w.watch("x", at(5, x))
	require.Nil(t, w.ledger.InFlight("uid-x"))
	w.requireDenied("default/x holds it", 4, b.Claim("y").Allocated("a", "gpu-0"))
}

// TestEnded: the scheduler in the same process is told of each approval that ends.
func TestEnded(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	var ended []string
	w.Scheduler = &scheduler{ended: func(claim ledger.ClaimRef, freed ledger.Freed) {
		ended = append(ended, claim.Name+" "+strconv.Itoa(len(freed)))
	}}
	w.watch("x", at(3, empty("x")))
	w.watch("y", at(3, empty("y")))
	w.requireAllowed(3, b.Claim("x").Allocated("a", "gpu-0"))
	w.requireAllowed(3, b.Claim("y").Allocated("a", "gpu-1"))
	w.watch("x", at(4, empty("x")))
	w.watch("y", at(5, b.Claim("y").Allocated("a", "gpu-1")))
	require.Equal(t, []string{"x 1", "y 0"}, ended)
}

func TestHandoverWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	w := newBoard(t, node())
	handover := NewHandover([]Listed{
		{ledger.RefTo(empty("allocated")), "3", true},
		{ledger.RefTo(empty("waiting")), "4", false},
		{ledger.RefTo(empty("deleted")), "5", false},
	})
	require.Len(t, handover.ToFence(), 2)
	require.Equal(t, []types.UID{"uid-allocated"}, handover.Missing(w.ledger))
	w.watch("allocated", at(3, b.Claim("allocated").Allocated("a", "gpu-0")))
	handover.Fenced("uid-waiting", "9")
	handover.Fenced("uid-deleted", "")
	require.Empty(t, handover.ToFence())
	require.Equal(t, []types.UID{"uid-waiting"}, handover.Missing(w.ledger), "what was stored before the fence has to be known")
	w.watch("waiting", at(4, empty("waiting")))
	require.Len(t, handover.Missing(w.ledger), 1)
	w.watch("waiting", at(8, b.Claim("waiting").Allocated("a", "gpu-1")))
	require.Len(t, handover.Missing(w.ledger), 1)
	w.watch("waiting", at(9, b.Claim("waiting").Allocated("a", "gpu-1")))
	require.Empty(t, handover.Missing(w.ledger))
}
