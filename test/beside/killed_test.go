package beside

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/faults/proxy"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// faultRate is the share of reads and events that meet a fault; of writes it is twice that.
	faultRate = 0.05
	// watchCuts is how often the watch of each kind of object is cut.
	watchCuts = 2
	// kills is how often a scheduler is killed in a burst.
	kills = 2
)

// TestKilledWhileContending kills a scheduler of ours with a bad connection at several moments
// of a burst in which it contends with a stock one for counters, capacities and compatibility
// groups. It never settles, so that there are conflicts, and what it has to report it finds in
// lists. The simulation kills schedulers of ours beside each other.
func TestKilledWhileContending(t *testing.T) {
	harness.Long(t, "a scheduler is killed at several moments of a burst")
	b, victim, connection := newVictim(t, "killed-stock", hasty)
	b.startStockForParts(b.Name + "-other")
	b.createPartsPods()
	b.killAgainAndAgain(victim, connection)
	b.endReported(b.sinceTheStart())
}

// newVictim makes a board with a scheduler of ours that has a bad connection.
func newVictim(t *testing.T, name string, o harness.SchedulerOptions) (*board, *harness.Scheduler, *proxy.Proxy) {
	t.Helper()
	b := newPartsBoard(t, name)
	p, err := proxy.Start(proxy.Options{Server: cluster.ControlPlane.AdminConfig(), Seed: 1})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	o.Kubeconfig, err = cluster.KubeconfigVia(b.Name, p.URL(), p.Certificate())
	require.NoError(t, err)
	return b, b.startOursForParts(b.Name+"-victim", o), p
}

// killAgainAndAgain kills the scheduler whenever some more pods are bound, and starts it again,
// until all pods are bound. Only while it starts the connection is good.
func (b *board) killAgainAndAgain(victim *harness.Scheduler, connection *proxy.Proxy) {
	b.T.Helper()
	bad := proxy.Anything(faultRate, watchCuts, "pods")
	require.NoError(b.T, connection.Set(bad))
	for kill := range kills {
		b.bindAtLeast((kill + 1) * partsPods() / (kills + 2))
		require.NoError(b.T, victim.Kill())
		b.T.Logf("killed with %d of %d pods bound and %d claims allocated", b.Bound(), partsPods(), b.Allocated())
		require.NoError(b.T, connection.Set(proxy.Faults{}))
		require.NoError(b.T, victim.Restart(b.T.Context()))
		require.NoError(b.T, connection.Set(bad))
	}
	b.allBound()
	require.NoError(b.T, connection.Set(proxy.Faults{}))
	b.T.Log(connection.Counts())
	require.Positive(b.T, connection.Counts().Total())
}

// sinceTheStart stands for the metrics of schedulers that were all started in this test.
func (b *board) sinceTheStart() []harness.Metrics { return make([]harness.Metrics, len(b.ours)) }
