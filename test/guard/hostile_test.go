package guard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestHostileRequests: whoever reaches the guard's port sends what it likes, and a tenant makes thousands of
// claims, while somebody else has allocations reviewed. All of those are answered, and rightly. How
// long that takes is logged: by the guard itself, and with an API server and its store around it.
func TestHostileRequests(t *testing.T) {
	harness.Long(t, "each kind of attack goes on for a while")
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "hostile", 8)
	process := g.start()
	g.decider()
	s.guarded()
	s.claims("one", "two")
	webhook, err := g.webhook(t.Context())
	require.NoError(t, err)
	a := &attacker{tenant: s, process: process, client: trusting(webhook.ClientConfig.CABundle), url: *webhook.ClientConfig.URL, known: s.stored("two")}
	for _, attack := range append([]attack{{name: "nobody"}}, attacks...) {
		t.Run(attack.name, func(t *testing.T) { a.measure(t, attack) })
	}
	t.Run("nothing is held for claims that do not exist", a.inventsClaims)
	require.NoError(t, process.Err())
	require.NoError(t, harness.GuardDecides(t.Context(), process), "it has kept its Lease")
	require.NoError(t, s.releaseAll(t.Context()))
}

// inventsClaims asks about what no API server has, and then for the same device as one would.
func (a *attacker) inventsClaims(t *testing.T) {
	denied := func(claim *resourceapi.ResourceClaim, want string) {
		t.Helper()
		response, err := a.answer(t.Context(), a.question(claim, a.allocation("gpu-4"), nil))
		require.NoError(t, err)
		require.False(t, response.Allowed)
		require.Contains(t, response.Result.Message, want)
	}
	denied(a.invented(), "is not known to the API server")
	later := a.stored("two")
	later.ResourceVersion = "1" + later.ResourceVersion
	denied(later, "which it never had")
	require.NoError(t, a.allocate(t.Context(), "one", "gpu-4"))
	require.NoError(t, a.release(t.Context(), "one"))
}

// reviewsEvery is how often somebody else has an allocation reviewed.
const reviewsEvery = 5 * time.Millisecond

// measure has somebody else's allocations reviewed during an attack.
func (a *attacker) measure(t *testing.T, attack attack) {
	ctx, stop := context.WithTimeout(t.Context(), attackTime(t))
	defer stop()
	var sent atomic.Int64
	var running sync.WaitGroup
	for i := range attack.atATime {
		running.Go(func() {
			for ctx.Err() == nil {
				attack.once(ctx, a, i)
				sent.Add(1)
				time.Sleep(attack.pause)
			}
		})
	}
	before := a.reviewTimes(t)
	var reviews, writes []time.Duration
	var reviewErr, writeErr error
	running.Go(func() { reviews, reviewErr = repeated(ctx, func() error { return a.reviewed(t.Context()) }) })
	running.Go(func() { writes, writeErr = repeated(ctx, func() error { return a.allocated(t.Context()) }) })
	running.Wait()
	require.NoError(t, reviewErr)
	require.NoError(t, writeErr)
	t.Logf("%d hostile requests; allowed by the guard, as it says: %s; reviews asked for here: %s; allocations, through the API server: %s",
		sent.Load(), a.reviewTimes(t).Since(before), quantiles(reviews), quantiles(writes))
}

// reviewTimes is how long the guard says that it has taken for allocations that it has allowed.
func (a *attacker) reviewTimes(t *testing.T) harness.Histogram {
	t.Helper()
	metrics, err := harness.ReadGuardMetrics(t.Context(), a.process)
	require.NoError(t, err)
	return metrics.Histogram("quartermaster_guard_review_duration_seconds", "allocates", "true", "answer", "allowed")
}

// repeated calls something again and again, and returns how long each call took.
func repeated(ctx context.Context, something func() error) (took []time.Duration, err error) {
	for ctx.Err() == nil {
		began := time.Now()
		if err := something(); err != nil {
			return nil, fmt.Errorf("call %d: %w", len(took)+1, err)
		}
		took = append(took, time.Since(began))
		time.Sleep(reviewsEvery)
	}
	return took, nil
}

func quantiles(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return took[min(len(took)-1, int(q*float64(len(took))))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d, p50 %s, p99 %s, max %s", len(took), at(0.5), at(0.99), at(1))
}

// allocated gives claim one a device, is denied the same for claim two, and takes it away.
func (a *attacker) allocated(ctx context.Context) error {
	if err := a.allocate(ctx, "one", "gpu-0"); err != nil {
		return err
	}
	if err := isDenied(a.allocate(ctx, "two", "gpu-0")); err != nil {
		return err
	}
	return a.release(ctx, "one")
}

// releaseAll takes the devices of all claims away.
func (s *tenant) releaseAll(ctx context.Context) error {
	claims, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		if claims.Items[i].Status.Allocation != nil {
			if err := s.release(ctx, claims.Items[i].Name); err != nil {
				return err
			}
		}
	}
	return nil
}
