package guard

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestUnstoredShare(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	var u unstored
	u.add("x", at(0), at(3))
	u.add("x", at(1), at(3)) // At the same time.
	u.add("x", at(2), at(5))
	require.Zero(t, u.pause("x", at(5)), "that was not more than it has")
	u.add("x", at(6), at(8))
	require.Equal(t, time.Duration(7*unstoredShare-8-5*unstoredShare+3)*time.Second, u.pause("x", at(8)), "it has earned for three seconds")
	require.Zero(t, u.pause("y", at(8)))
	require.NotZero(t, u.pause("x", at(22)))
	require.Zero(t, u.pause("x", at(24)))
	u.add("x", at(24), at(9999))
	require.Equal(t, longestPause, u.pause("x", at(9999)))
	for i := range 2 * manyNamespaces {
		u.add(time.Duration(i).String(), at(float64(20000+i)), at(float64(20000+i)+0.01))
	}
	require.LessOrEqual(t, len(u.byNamespace), manyNamespaces, "who owes nothing is forgotten")
}

// A namespace whose approvals are never stored blocks devices for at most a tenth of the time. Stored approvals cost
// nothing.
func TestNothingIsApprovedForWhoStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeputy(t)
		for version := 3; version < 30; version += 2 { // Stored late, each time.
			require.Equal(t, Allowed, d.decideShown(version, "x"))
			time.Sleep(2 * time.Second)
			d.shows(at(version+1, b.Claim("x").Allocated("a", "gpu-0")))
		}
		version := 31
		for kept := time.Duration(0); kept <= unstoredAtOnce; kept += 2 * time.Second {
			require.Equal(t, Allowed, d.decideShown(version, "x"))
			time.Sleep(2 * time.Second)
			version++
		}
		d.shows(at(version, empty("x")))
		answer := d.decide(version, b.Claim("x").Allocated("a", "gpu-0"))
		require.Equal(t, Denied, answer.Kind)
		require.Contains(t, answer.Reason, "claim default/x was to be allocated, but earlier allocations that the guard allowed for claims of its namespace were not stored")
		d.shows(at(version, empty("y")))
		require.Equal(t, Denied, d.decide(version, b.Claim("y").Allocated("a", "gpu-1")).Kind, "another claim of the namespace")

		d.Mode = Warn
		require.Equal(t, Allowed, d.decide(version, b.Claim("x").Allocated("a", "gpu-0")).Kind)
		d.Mode = Enforce
		time.Sleep(unstoredShare * unstoredAtOnce)
		require.Equal(t, Allowed, d.decide(version, b.Claim("x").Allocated("a", "gpu-0")).Kind)
	})
}

// In an outage the API server asks but cannot store anything, and the guard cannot fence anything. That costs the
// namespace nothing afterwards; a refusal of only this claim does.
func TestOutageCostsNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fails func(string) error
		after Kind
	}{
		"the store is away":   {unreachable, Allowed},
		"there is no answer":  {func(string) error { return context.DeadlineExceeded }, Allowed},
		"a policy is against": {refuses, Denied},
		"a webhook is against": {func(string) error {
			return apierrors.NewBadRequest("admission webhook denied the request")
		}, Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, s := newDeputy(t), newClaimServer(empty("x"), empty("y"))
				s.stored = d.shows
				var over atomic.Bool
				s.beforeUpdate = func(name string) error {
					if over.Load() {
						return nil
					}
					return tc.fails(name)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go d.Sweep(ctx, s.Fencer)
				require.Equal(t, Allowed, d.decideShown(3, "x"))
				time.Sleep(20 * time.Second)
				d.shows(at(3, empty("y")))
				require.Equal(t, Allowed, d.decide(3, b.Claim("y").Allocated("a", "gpu-1")).Kind, "nothing has ended")
				time.Sleep(20 * time.Second)
				over.Store(true)
				time.Sleep(maxPause)
				synctest.Wait()
				require.Empty(t, d.Approvals())
				answer := d.decide(s.version("x"), b.Claim("x").Allocated("a", "gpu-0"))
				require.Equal(t, tc.after, answer.Kind, answer.Reason)
			})
		})
	}
}

// The watch lags. Meanwhile an allocation is stored and released, and the watch never shows it; another one is
// fenced, and blocks its devices only until the watch has caught up.
func TestLateWatchCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newDeputy(t), newClaimServer(empty("x"), empty("y"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.Sweep(ctx, s.Fencer)
		require.Equal(t, Allowed, d.decideShown(3, "x"))
		s.arrives(b.Claim("x").Allocated("a", "gpu-0"))
		d.shows(at(3, empty("y")))
		require.Equal(t, Allowed, d.decide(3, b.Claim("y").Allocated("a", "gpu-1")).Kind)
		time.Sleep(5 * time.Second)
		s.arrives(empty("x"))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		d.shows(at(s.version("x"), empty("x")))
		d.shows(at(s.version("y"), empty("y")))
		require.Empty(t, d.Approvals())
		answer := d.decide(s.version("x"), b.Claim("x").Allocated("a", "gpu-0"))
		require.Equal(t, Allowed, answer.Kind, answer.Reason)
		require.GreaterOrEqual(t, time.Since(d.Guard.Book.unstored.byNamespace["default"].counted), 20*time.Second, "y counts until it was fenced")
	})
}

// version is which one the server has of a claim.
func (s *claimServer) version(name string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	version, err := strconv.Atoi(s.claims[name].ResourceVersion)
	if err != nil {
		panic(err)
	}
	return version
}

// decideShown is the answer about a claim that the watch shows without allocation.
func (d *deputy) decideShown(version int, name string) Kind {
	d.t.Helper()
	d.shows(at(version, empty(name)))
	return d.decide(version, b.Claim(name).Allocated("a", "gpu-0")).Kind
}
