package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/webhook"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// lock is a Lease that everybody gets who asks for it.
type lock struct{ resourcelock.Interface }

func (lock) Identity() string { return "a" }

func (lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

// Behind a Service, only the guard that decides is asked.
func TestReadyIsWhoDecides(t *testing.T) {
	t.Parallel()
	held := ledger.New()
	held.Pools = func(inventory.PoolID) *inventory.NodePool { return nil }
	deciding := &guard.Guard{Book: guard.NewBook(held), Lease: &lease.Lease{}}
	followed := deciding.Lease.Follow(lock{}, time.Hour)
	asked := webhook.NewHandler(deciding, nil)
	h := handler(deciding, asked, true)
	ready := func(want int) {
		t.Helper()
		require.Equal(t, want, get(h, "/readyz").Code)
		require.Equal(t, http.StatusOK, get(h, "/healthz").Code, "it is as well as any other")
		require.Equal(t, http.StatusOK, get(h, "/livez").Code)
	}
	ready(http.StatusServiceUnavailable)
	require.NoError(t, followed.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
	ready(http.StatusServiceUnavailable)
	deciding.Book.Decide(deciding.Lease.Since())
	ready(http.StatusOK)
	require.NoError(t, followed.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	ready(http.StatusServiceUnavailable)

	require.Equal(t, http.StatusOK, get(h, "/metrics").Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(handler(deciding, asked, false), "/metrics").Code, "a scheduler's are not for everybody")
	require.Equal(t, http.StatusMethodNotAllowed, get(h, "/").Code, "all else is for API servers")
	require.Equal(t, http.StatusMethodNotAllowed, get(h, "/validate").Code)
}

// A process that has no inventory and ledger follows claims and slices.
func TestFollow(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(b.NodeSlice("a", b.Devices("gpu-0", "gpu-1")...).Obj(), b.Claim("x").Allocated("a", "gpu-0"))
	holdings := Follow(client)
	claims, slices := make(chan string, 10), make(chan string, 10)
	require.NoError(t, holdings.OnClaim(func(key string) {
		if holdings.Ledger.State("uid-x").Committed == nil {
			key = "too early: " + key
		}
		claims <- key
	}))
	require.NoError(t, holdings.OnSlice(func(name string) { slices <- name }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	holdings.Start(ctx)
	require.NoError(t, holdings.Sync(ctx))
	require.Equal(t, "default/x", <-claims)
	require.NotEmpty(t, <-slices)
	allocated := b.Claim("y").Allocated("a", "gpu-0")
	pool := holdings.Ledger.Pools(ledger.PoolOf(&allocated.Status.Allocation.Devices.Results[0]))
	require.NotNil(t, pool)
	require.NotNil(t, pool.Device("gpu-1"))
	require.Error(t, holdings.Ledger.AddInFlight(ledger.RefTo(allocated), "y", allocated.Status.Allocation))

	ended, end := context.WithCancel(t.Context())
	end()
	never := Follow(fake.NewClientset())
	require.NoError(t, never.OnClaim(func(string) {}))
	require.ErrorContains(t, never.Sync(ended), "waiting for the lists of claims and slices")
}
