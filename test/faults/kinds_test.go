package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/faults/proxy"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// rate is the share of writes that meet a fault.
const rate = 0.1

// watchCuts is how often the watch of each kind of object is cut: after the third
// time, client-go pauses for some seconds.
const watchCuts = 3

// notRepeated are the objects of which nothing is repeated. kube-scheduler ends itself
// when it sees a pod go back to a state in which it was not on its node yet ("Scheduler
// cache is corrupted"), whatever its plugins do.
var notRepeated = []string{"pods"}

// All kinds of faults together, and what depends on the protocol. The simulation has single kinds.
func TestBadConnection(t *testing.T) {
	t.Parallel()
	writes := func(kinds ...proxy.Kind) proxy.Faults { return proxy.Faults{Writes: proxy.Mixed(rate, kinds...)} }
	for name, test := range map[string]struct {
		faults     proxy.Faults
		connection connection
	}{
		"429 and Retry-After":   {faults: writes(proxy.RetryLater)},
		"cut before and after":  {faults: writes(proxy.CutBefore, proxy.CutAfter), connection: connection{http1: true}},
		"everything, at random": {faults: everything()},
		"everything, in JSON":   {faults: everything(), connection: connection{json: true}},
		"everything, v1beta1":   {faults: everything(), connection: connection{v1beta1: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "everything, at random" {
				harness.Long(t, "each takes as long as all faults together")
			}
			t.Parallel()
			testBadConnection(t, test.faults, test.connection)
		})
	}
}

// everything is any kind of fault of anything.
func everything() proxy.Faults { return proxy.Anything(rate, watchCuts, notRepeated...) }

func testBadConnection(t *testing.T, faults proxy.Faults, c connection) {
	s := newSpace(t, "connection", nodes)
	p := startScheduler(s, c)
	for round := range *rounds {
		if round > 0 {
			clearPods(s, round-1)
		}
		start := time.Now()
		setFaults(t, p, faults)
		startBurst(s, round)
		if round == 0 {
			full(s)
			makeRoom(s, nodes)
		}
		placed := allPlaced(s)
		took := time.Since(start)
		setFaults(t, p, proxy.Faults{})
		inOrder(s)
		t.Logf("seed %d, round %d: %d pods scheduled after %s; since the start %s", *seed, round, placed, took.Round(time.Millisecond), p.Counts())
	}
	// Of many kinds at random, one may be missing.
	for what, rates := range map[string]proxy.Rates{"writes": faults.Writes, "events": faults.Events} {
		met := 0
		for kind := range rates {
			if p.Counts().Of(kind) > 0 {
				met++
			}
		}
		require.GreaterOrEqual(t, met, min(len(rates), max(2, len(rates)/2)), "kinds of faults of %s: %s", what, p.Counts())
	}
}
