package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// stateLimit keeps a configuration that has become too large from eating the machine.
const stateLimit = 1_500_000

func exploreAll(t *testing.T, c config) report {
	t.Helper()
	r, err := explore(newModel(c), stateLimit)
	require.NoError(t, err)
	t.Logf("%d states, %d steps", r.states, r.steps)
	return r
}

// requireSound explores and expects that nothing is wrong.
func requireSound(t *testing.T, c config) {
	t.Helper()
	r := exploreAll(t, c)
	if r.violation != nil {
		t.Errorf("the protocol does not hold:\n%s", r.violation)
	}
	if r.trap != nil && !c.scarce {
		t.Errorf("pods can get stuck:\n%s", r.trap)
	}
	if r.starvation != nil {
		t.Errorf("pods can wait for ever:\n%s", r.starvation)
	}
	if r.circle != nil && !c.goesRound() {
		t.Errorf("it can go round for ever:\n%s", r.circle)
	}
}

// requireViolation explores and expects that something goes wrong in that way.
func requireViolation(t *testing.T, c config, want string) {
	t.Helper()
	r := exploreAll(t, c)
	require.NotNil(t, r.violation, "without %q the model proves nothing: the violation was not found", c.name)
	t.Logf("found:\n%s", r.violation)
	require.Contains(t, r.violation.end, want)
}

func TestProtocolHolds(t *testing.T) {
	t.Parallel()
	for _, c := range sound() {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.isLarge() {
				t.Skip(tooLarge)
			}
			t.Parallel()
			requireSound(t, c)
		})
	}
}

// Each part of the protocol is there for a reason: without it, devices are held twice.
func TestWithoutAPart(t *testing.T) {
	t.Parallel()
	for _, c := range []config{
		between("the check", func(c *config) { c.competing(); c.flaws = noCheck }),
		between("the check of capacity", func(c *config) { c.sharedCapacity(); c.flaws = noCheck }),
		between("the check of counters", func(c *config) { c.counters(); c.flaws = noCheck }),
		between("waiting for the pool to be complete", func(c *config) { c.counters(); c.republishes, c.flaws = 1, unknownPasses }),
		between("waiting for the watch", func(c *config) { c.competing(); c.flaws = noAwait | missingPasses }),
		between("waiting for the watch, though the claim must be in view", func(c *config) { c.competing(); c.flaws = noAwait }),
		between("the order of allocations, in favour of that of the last writes", func(c *config) { c.joined(); c.flaws = byReservation }),
		between("the check for pods that join", func(c *config) { c.joined(); c.flaws = joinsUnchecked }),
		between("the check for pods that are tried again", func(c *config) { c.competing(); c.crashes, c.flaws = 1, joinsUnchecked }),
		between("doubt after a list", func(c *config) { c.joined(); c.relists, c.flaws = 1, listsExact }),
		between("doubt about what looks the same after a list", func(c *config) {
			c.joined()
			c.relists, c.failures, c.flaws = 1, 1, listsKeepOrder
			c.sparedPods = map[uint8]bool{0: true, 1: true}
		}),
		between("lists that are applied at once", func(c *config) { c.competing(); c.relists, c.flaws = 1, listsPiecemeal }),
	} {
		c.onlySafety = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireViolation(t, c, heldTwice)
		})
	}
}

// Comparing something else than allocations is also unfair to those who were first.
func TestFirstReleasesWithoutTheOrder(t *testing.T) {
	t.Parallel()
	requireViolation(t, between("the order of allocations", func(c *config) { c.joined(); c.flaws = byReservation }), firstReleases)
	requireViolation(t, between("doubt after a list", func(c *config) { c.joined(); c.relists, c.flaws = 1, listsExact }), firstReleases)
}

// An attempt that ends before its check must not leave an allocation behind that may be
// in conflict: nobody would ever look at it again.
func TestLeftoversAreTraps(t *testing.T) {
	t.Parallel()
	r := exploreAll(t, between("releasing after a failure", func(c *config) { c.leftover(); c.flaws = failuresKeep }))
	require.Nil(t, r.violation)
	require.NotNil(t, r.trap)
	require.NotNil(t, r.starvation, "what nobody uses is no reason that lasts")
	t.Logf("found:\n%s", r.trap)
}

// What the attempt of a dead process has allocated, the next one joins. If that fails before
// its check, the allocation stays, for the attempt has not made it; and if then the pod is
// deleted, nobody takes it away. This is how it is, not how it should be.
func TestAllocationThatWasJoinedIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := exploreAll(t, between("a crash, a failure and a deletion", func(c *config) { c.leftover(); c.sparedSchedulers = map[uint8]bool{0: true} }))
	require.Nil(t, r.violation)
	require.NotNil(t, r.trap)
	t.Logf("found:\n%s", r.trap)
}

// goesRound reports whether it can go round in a configuration: where a binding may be under way that arrives only when the
// watches leave room for it, as often as they do.
func (c *config) goesRound() bool { return c.lateBindings }

// Pods that share a claim which has lost would keep it allocated in turns if they joined it: each joins what the other has not
// released yet, and releases only its own reservation.
func TestLostClaimIsNotJoined(t *testing.T) {
	t.Parallel()
	r := exploreAll(t, between("looking before joining", func(c *config) { c.joined(); c.flaws = joinsLost }))
	require.Nil(t, r.violation)
	require.Nil(t, r.starvation, "there is always a way out")
	require.NotNil(t, r.circle)
	t.Logf("found:\n%s", r.circle)
}

func TestExploreSaysWhenItIsCutShort(t *testing.T) {
	t.Parallel()
	_, err := explore(newModel(between("any", (*config).competing)), 100)
	require.ErrorContains(t, err, "at most 100 states")
}
