package protocol

import "testing"

// late is a conflict in which one process dies while a request of it is under way.
func (c *config) late() {
	c.competing()
	c.crashes, c.failures = 1, 1
}

// If a process makes no write of its own because it finds everything as it wants it, then
// a late request of its predecessor may still undo that.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	t.Run("with a write in each attempt", func(t *testing.T) {
		if testing.Short() {
			t.Skip(tooLarge)
		}
		t.Parallel()
		requireSound(t, between("late requests", func(c *config) { c.late(); c.lateRequests = true }))
	})
	t.Run("without it", func(t *testing.T) {
		t.Parallel()
		requireViolation(t, between("a write in each attempt", func(c *config) { c.late(); c.lateRequests, c.flaws = true, noFence }), withoutDevices)
	})
}

// A binding carries no version, so the server cannot tell that it is late. It does harm
// only where the claim is released meanwhile.
func TestLateBindings(t *testing.T) {
	t.Parallel()
	t.Run("with a pause before releasing", func(t *testing.T) {
		if testing.Short() {
			t.Skip(tooLarge)
		}
		t.Parallel()
		requireSound(t, between("late bindings", func(c *config) {
			c.late()
			c.lateRequests, c.lateBindings, c.waitsForBindings = true, true, true
		}))
	})
	t.Run("without it, after a failure", func(t *testing.T) {
		t.Parallel()
		requireViolation(t, between("a pause before releasing", func(c *config) { c.late(); c.lateBindings = true }), notReserved)
	})
	t.Run("without it, after a lost check", func(t *testing.T) {
		t.Parallel()
		requireViolation(t, between("a pause before yielding", func(c *config) { c.late(); c.failures, c.lateBindings = 0, true }), withoutDevices)
	})
}

// besideBlind has the second scheduler bind without looking, as the default one does.
func (c *config) besideBlind() { c.blind = map[uint8]bool{1: true} }

// settling has ours wait before binding. enough says that the wait is longer than the
// other scheduler takes to hear of a write and to finish what it decided before.
func (c *config) settling(enough bool) { c.settle, c.settlesLongEnough = true, enough }

func TestBesideASchedulerThatDoesNotLook(t *testing.T) {
	t.Parallel()
	for _, c := range []config{
		between("without settling", func(c *config) { c.competing(); c.besideBlind() }),
		between("settling for too short", func(c *config) { c.competing(); c.besideBlind(); c.settling(false) }),
		between("its pod joins a claim of ours that yields", func(c *config) { c.joined(); c.besideBlind(); c.settling(true) }),
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireViolation(t, c, heldTwice)
		})
	}
	for _, c := range []config{
		between("settling", func(c *config) { c.competing(); c.besideBlind(); c.settling(true) }),
		between("settling, crash and relist", func(c *config) {
			c.competing()
			c.besideBlind()
			c.settling(true)
			c.crashes, c.relists = 1, 1
		}),
		between("settling, two of ours", func(c *config) {
			c.gpus(3, 3)
			c.schedulers, c.lag = 3, 2
			c.pods = []pod{{0, 0}, {1, 1}, {2, 2}}
			c.besideBlind()
			c.settling(true)
		}),
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.isLarge() {
				t.Skip(tooLarge)
			}
			t.Parallel()
			requireSound(t, c)
		})
	}
}
