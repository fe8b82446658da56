package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

func alpha(fields conversion.AlphaClaim) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) { conversion.SetAlphaClaim(claim, fields) }
}

// TestDeallocationRequested: no new pod may use the claim. It is deallocated once its users are gone, and the next
// attempt allocates it again.
func TestDeallocationRequested(t *testing.T) {
	t.Parallel()
	requested := alpha(conversion.AlphaClaim{DeallocationRequested: true})
	for name, test := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string // why the pod has to wait; "" if it need not
		freed bool
	}{
		"allocated":                {claim: gpus("c", 1).Allocated("n1", "gpu-0")},
		"requested":                {claim: with(gpus("c", 1).Allocated("n1", "gpu-0"), requested), want: "deallocation requested: claim default/c", freed: true},
		"requested, for the pod":   {claim: with(gpus("c", 1).Allocated("n1", "gpu-0"), requested, reservedFor("p")), want: "deallocation requested", freed: true},
		"requested, others use it": {claim: with(gpus("c", 1).Allocated("n1", "gpu-0"), requested, reservedFor("other")), want: "deallocation requested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), test.claim, newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				a := f.mustBegin(f.pod("p")).filter()
				if test.want == "" {
					require.Equal(t, []string{"n1"}, a.feasible)
					return
				}
				require.Empty(t, a.feasible)
				require.Contains(t, a.reasons["n1"], test.want)
				_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
				require.Equal(t, test.freed, status.IsSuccess(), "%v", status)
				f.settle()
				require.Equal(t, test.freed, f.claim("c").Status.Allocation == nil)
				if test.freed {
					require.Contains(t, status.Message(), test.want)
					require.Contains(t, f.activator.names(), "default/p", "its update wakes the pod")
				}
			})
		})
	}
}

// TestConsumerLimitOfTheServer: PreFilter respects the limit, and pods are woken once there is room.
func TestConsumerLimitOfTheServer(t *testing.T) {
	t.Parallel()
	const limit = 32
	beforeEvents(t, func(t *testing.T, f *fixture) {
		full := with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor(users(limit)...))
		room := with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor(users(limit-1)...))
		f.arrive(boundTo(newPod("user-0", uses("c")), "n1"))
		pod := newPod("p", uses("c"))
		_, status := f.pl.checkClaim(pod, full, nil, nil)
		require.True(t, status.IsSuccess(), "v1 permits more")
		require.False(t, f.pl.events.ClaimMatters(informer.Event[resourceapi.ResourceClaim]{Before: full, After: room}), "there was room before")

		f.pl.claims.Server = otherServer{f.pl.claims.Server, nil, limit, true}
		_, status = f.pl.checkClaim(pod, full, nil, nil)
		require.Contains(t, status.Message(), "claim default/c is reserved for 32 pods (the limit)")
		require.True(t, f.pl.events.ClaimMatters(informer.Event[resourceapi.ResourceClaim]{Before: full, After: room}))
		_, status = f.pl.checkClaim(pod, room, nil, nil)
		require.True(t, status.IsSuccess())
	})
}
