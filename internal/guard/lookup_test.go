package guard

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// claimReader is an API server that serves concurrent reads of claims.
type claimReader struct {
	resourceclient.ResourceClaimInterface
	get func(ctx context.Context, name string) (*resourceapi.ResourceClaim, error)
}

func (c claimReader) ResourceClaims(string) resourceclient.ResourceClaimInterface { return c }

func (c claimReader) Get(ctx context.Context, name string, _ metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	return c.get(ctx, name)
}

// silent is an API server that does not answer.
func silent(ctx context.Context, _ string) (*resourceapi.ResourceClaim, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (d *deputy) requireDenies(reason string, version int, claim *resourceapi.ResourceClaim) {
	d.t.Helper()
	answer := d.decide(version, claim)
	require.Equal(d.t, Denied, answer.Kind, answer.Reason)
	require.Contains(d.t, answer.Reason, reason)
	require.Empty(d.t, d.Approvals())
}

// Any client that reaches the port can ask about invented claims; these block no devices.
func TestInventedClaims(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.requireDenies("claim default/invented with UID uid-invented is not known to the API server", 3, b.Claim("invented").Allocated("a", "gpu-0"))
	recreated := b.Claim("x").Allocated("a", "gpu-0")
	recreated.UID = "earlier"
	d.requireDenies("claim default/x with UID earlier is not known to the API server", 3, recreated)
	d.requireDenies("has version 3 on the API server; nothing can be stored on version 1000, which it never had", 1000, b.Claim("x").Allocated("a", "gpu-0"))
	d.shows(at(3, empty("x")))
	d.requireDenies("which it never had", 1000, b.Claim("x").Allocated("a", "gpu-0"))
	renamed := b.Claim("y").Allocated("a", "gpu-0")
	renamed.UID = "uid-x"
	d.requireDenies("claim default/y with UID uid-x is not known to the API server", 3, renamed)
	require.Equal(t, Answer{}, d.decide(2, b.Claim("y").Allocated("a", "gpu-0")), "the server finds out that it has changed")
	require.Empty(t, d.Approvals())
	require.Equal(t, Answer{}, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")))
	require.Len(t, d.Approvals(), 1)
}

// An approval lasts until the claim is at a newer version: who asks for a later one, of an approved claim,
// must not have it last longer.
func TestInventedVersionOfAnApprovedClaim(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	require.Equal(t, Denied, d.decide(1000, b.Claim("x").Allocated("a", "gpu-0")).Kind)
	require.Equal(t, "3", d.Approvals()[0].Version)
}

// Known claims, approved claims and requests without devices need no lookup.
func TestNoLookup(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.Lookup = nil
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")), "the server asks again")
	d.shows(at(7, empty("y")))
	require.Equal(t, Answer{}, d.decide(7, b.Claim("y").Allocated("a", "gpu-1")))
	dry := request(3, b.Claim("z").Allocated("a", "gpu-1"))
	dry.DryRun = true
	require.Contains(t, d.Guard.Review(t.Context(), dry).Reason, "default/y holds it")
}

// If the API server does not say what it has, the watch may yet.
func TestWatchIsFasterThanTheLookup(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.Lookup = NewLookup(claimReader{get: silent})
	answer := d.waits(t.Context(), request(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.shows(at(3, empty("x")))
	require.Equal(t, Answer{}, <-answer)
	d = newDeputy(t)
	d.Lookup = NewLookup(claimReader{get: silent})
	d.requireDenies("is not known here at version 3", 3, b.Claim("x").Allocated("a", "gpu-0"))
}

// Requests about invented claims cause at most this number of concurrent lookups, and do not delay requests about
// known claims.
func TestLookupsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeputy(t)
		var reading, most atomic.Int64
		d.Lookup = NewLookup(claimReader{get: func(ctx context.Context, name string) (*resourceapi.ResourceClaim, error) {
			most.Store(max(most.Load(), reading.Add(1)))
			defer reading.Add(-1)
			return silent(ctx, name)
		}})
		const invented = 3 * maxLookups
		answers := make(chan Answer, invented)
		for i := range invented {
			go func() {
				answers <- d.decide(3, b.Claim(fmt.Sprintf("invented-%d", i)).Allocated("a", "gpu-0"))
			}()
		}
		synctest.Wait()
		require.EqualValues(t, maxLookups, reading.Load())
		began := time.Now()
		d.shows(at(3, empty("x")))
		require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
		require.Zero(t, time.Since(began)) // By the clock of the test, which stands still.
		for range invented {
			require.Equal(t, Denied, (<-answers).Kind)
		}
		require.EqualValues(t, maxLookups, most.Load())
		require.Equal(t, types.UID("uid-x"), d.Approvals()[0].Claim.UID)
		require.Len(t, d.Approvals(), 1)
	})
}
