package protocol

// What the configurations have in common: two schedulers, and watches that may be three
// writes behind.
func between(name string, set func(*config)) config {
	c := config{name: name, schedulers: 2, lag: 3}
	set(&c)
	return c
}

// isLarge reports whether the model has many more states than with two schedulers and requests that are handled in time.
func (c *config) isLarge() bool { return c.schedulers > 2 || c.lateRequests }

// tooLarge is the reason why make test skips such a model.
const tooLarge = "too long for make test: it has many more states than others"

// gpus are exclusive devices of which each claim may get any.
func (c *config) gpus(devices, claims int) {
	c.available = make(map[string]uint8)
	var all []choice
	for i := range devices {
		name := "gpu-" + string('0'+rune(i))
		c.available[name] = 1
		c.choices = append(c.choices, draw{name: 1})
		all = append(all, choice(i+1))
	}
	for range claims {
		c.claims = append(c.claims, all)
	}
}

// competing are two claims of two schedulers, with a pod each.
func (c *config) competing() {
	c.gpus(2, 2)
	c.pods = []pod{{0, 0}, {1, 1}}
}

// joined is a claim with pods of both schedulers beside one of the second scheduler.
func (c *config) joined() {
	c.gpus(2, 2)
	c.pods = []pod{{0, 0}, {1, 1}, {1, 0}}
}

// joinedAtOne is a claim with two pods of the first scheduler beside one of the second.
func (c *config) joinedAtOne() {
	c.gpus(2, 2)
	c.pods = []pod{{0, 0}, {1, 1}, {0, 0}}
}

// leftover is a conflict whose later side fails, and then its pod is deleted; the other
// side's scheduler forgets the order. The one device is enough once that pod is gone.
func (c *config) leftover() {
	c.joinedAtOne()
	c.claims = [][]choice{{1}, {1}}
	c.lag, c.crashes, c.deletions, c.failures = 2, 1, 1, 1
	c.sparedPods, c.sparedSchedulers = map[uint8]bool{0: true, 2: true}, map[uint8]bool{1: true}
}

// sharedCapacity is a device that two claims fit on beside one that only one fits on.
func (c *config) sharedCapacity() {
	c.available = map[string]uint8{"gpu-0 memory": 4, "gpu-1 memory": 3}
	c.choices = []draw{{"gpu-0 memory": 2}, {"gpu-1 memory": 2}}
	c.claims = [][]choice{{1, 2}, {1, 2}, {1, 2}}
	c.pods = []pod{{0, 0}, {1, 1}, {1, 2}}
}

// counters is a device that can be had whole or in halves, beside a small one.
func (c *config) counters() {
	c.available = map[string]uint8{"half-0": 1, "half-1": 1, "whole": 1, "memory": 2, "spare": 1}
	c.choices = []draw{
		{"whole": 1, "memory": 2}, {"half-0": 1, "memory": 1}, {"half-1": 1, "memory": 1}, {"spare": 1},
	}
	c.claims = [][]choice{{1, 4}, {2, 3, 4}}
	c.pods = []pod{{0, 0}, {1, 1}}
	c.counted = map[string]bool{"memory": true}
}

// sound are configurations in which the protocol must hold as it is.
func sound() []config {
	return []config{
		between("two claims, two devices", func(c *config) { c.competing(); c.lag = 5 }),
		between("two claims, one device", func(c *config) {
			c.competing()
			c.available = map[string]uint8{"gpu-0": 1}
			c.choices = []draw{{"gpu-0": 1}}
			c.claims = [][]choice{{1}, {1}}
			c.scarce = true
		}),
		between("two claims, crashes and relists", func(c *config) { c.competing(); c.crashes, c.relists = 1, 2 }),
		between("two claims, deletions and failures", func(c *config) { c.competing(); c.deletions, c.failures = 1, 1 }),
		between("a claim with pods of two schedulers", func(c *config) { c.joined(); c.lag = 5 }),
		between("a claim with pods of two schedulers, a relist", func(c *config) { c.joined(); c.relists = 1 }),
		between("a claim with pods of two schedulers, a crash", func(c *config) { c.joined(); c.crashes = 1 }),
		between("a claim with pods of two schedulers, a deletion", func(c *config) { c.joined(); c.lag, c.deletions = 2, 1 }),
		between("a claim with pods of two schedulers, a failure", func(c *config) { c.joined(); c.lag, c.failures = 2, 1 }),
		between("an attempt fails, its pod goes, the other scheduler crashes", (*config).leftover),
		between("three schedulers, three claims", func(c *config) {
			c.gpus(3, 3)
			c.schedulers, c.lag = 3, 2
			c.pods = []pod{{0, 0}, {1, 1}, {2, 2}}
		}),
		between("capacity of a shared device", func(c *config) { c.sharedCapacity() }),
		between("counters", func(c *config) { c.counters(); c.crashes = 1 }),
		between("counters of a pool that is published again", func(c *config) { c.counters(); c.republishes = 2 }),
		between("counters of a pool that is published again, a crash", func(c *config) { c.counters(); c.crashes, c.republishes = 1, 1 }),
		between("late writes of a dead process, joined", func(c *config) { c.joinedAtOne(); c.lag, c.crashes, c.lateRequests = 2, 1, true }),
	}
}
