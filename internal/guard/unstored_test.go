package guard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/internal/builder"
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

// Who has devices kept again and again, and nothing stored, keeps them for a tenth of the time. What is stored costs nothing.
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
		require.Contains(t, answer.Reason, "claim default/x was to be allocated, but what was allowed for claims of its namespace was not stored")
		d.shows(at(version, empty("y")))
		require.Equal(t, Denied, d.decide(version, b.Claim("y").Allocated("a", "gpu-1")).Kind, "another claim of the namespace")

		d.Warned = func(*Request, string) {}
		require.Equal(t, Allowed, d.decide(version, b.Claim("x").Allocated("a", "gpu-0")).Kind)
		d.Warned = nil
		time.Sleep(unstoredShare * unstoredAtOnce)
		require.Equal(t, Allowed, d.decide(version, b.Claim("x").Allocated("a", "gpu-0")).Kind)
	})
}

// decideShown is the answer about a claim that the watch shows without allocation.
func (d *deputy) decideShown(version int, name string) Kind {
	d.t.Helper()
	d.shows(at(version, empty(name)))
	return d.decide(version, b.Claim(name).Allocated("a", "gpu-0")).Kind
}
