package protocol

import "fmt"

// draw is what a choice takes: units of each resource. An exclusive device is a
// resource of one unit, a device with capacity one of several units, and so is a counter
// that several devices draw on. That is all that matters for conflicts.
type draw map[string]uint8

// config is what takes part in an exploration.
type config struct {
	name string
	// available has the units of each resource.
	available map[string]uint8
	// choices are the sets of devices that there are; claims says which of them
	// (counted from 1) each claim may get.
	choices []draw
	claims  [][]choice
	// pods and schedulers are those that exist. The schedulers named in blind do not
	// follow the protocol: they bind at once.
	pods       []pod
	schedulers int
	blind      map[uint8]bool
	// lag is how many writes a watch may be behind. Writes wait while one is that far
	// behind. It is what keeps the number of states finite.
	lag int
	// How often these may happen in one run: a scheduler crashes and starts again
	// with a fresh list, a watch lists anew, a pod is deleted, another step of binding
	// fails after the reservation was written.
	crashes, relists, deletions, failures uint8
	// counted are the resources of which a scheduler knows only from a complete pool how much
	// a device draws, and republishes how often the pool may cease to be complete for one of
	// them, which has not seen any complete state then.
	counted     map[string]bool
	republishes uint8
	// spared are pods that are never deleted and whose binding never fails, and
	// schedulers that never crash: a smaller number of states.
	sparedPods, sparedSchedulers map[uint8]bool
	// lateRequests: a request that was sent before a crash may arrive at any time
	// afterwards, or never. lateBindings: that goes for the binding of a pod as well.
	lateRequests, lateBindings bool
	// waitsForBindings: what a dead process may have reserved for a pod is not taken
	// back while the pod's binding may be under way.
	waitsForBindings bool
	// settle: yield to a later conflicting claim of others that is known before the pod is bound.
	settle bool
	// settlesLongEnough: what blind schedulers decided before they could see an
	// allocation arrives, and is delivered, before its pod is bound.
	settlesLongEnough bool
	// scarce: there are not enough devices for all pods, so no end is in reach for some.
	scarce bool
	// onlySafety looks for what goes wrong with bound pods, not for claims that yield
	// without need.
	onlySafety bool
	// flaws are what is left out of the protocol.
	flaws flaw
}

// pod is one that is to be bound: by which scheduler, with which claim.
type pod struct{ scheduler, claim uint8 }

// flaw is a set of deviations from the protocol.
type flaw uint16

const (
	// noCheck binds without checking at all.
	noCheck flaw = 1 << iota
	// noAwait checks without waiting for the watch.
	noAwait
	// byReservation compares by the last write of a claim, such as a reservation, in
	// place of the write that allocated it.
	byReservation
	// joinsUnchecked leaves out the check for pods whose claim is allocated already.
	joinsUnchecked
	// joinsLost has pods join an allocation of which their scheduler knows already that it has lost.
	joinsLost
	// listsExact takes the version of a listed claim for that of its allocation.
	listsExact
	// listsKeepOrder takes an allocation that looks the same after a relist for the
	// same, though the claim has changed.
	listsKeepOrder
	// listsPiecemeal applies a list claim by claim, as informers do.
	listsPiecemeal
	// missingPasses finds no conflict for a claim whose allocation is gone.
	missingPasses
	// noFence makes no write if the reservation is there already.
	noFence
	// failuresKeep leaves the allocation in place when an attempt fails after its write.
	failuresKeep
	// unknownPasses checks while the pool is not complete, and finds nothing wrong with
	// what draws on counted resources.
	unknownPasses
)

func (f flaw) has(other flaw) bool { return f&other != 0 }

// model is a configuration with what is derived from it.
type model struct {
	config
	// takes has for each choice, counted from 1, the units of each resource; units
	// what there is. Resources are numbered.
	takes [][]uint8
	units []uint8
	// isCounted is config.counted by number of the resource.
	isCounted []bool
	// needsVersions: the versions of claims matter, not only those of allocations.
	needsVersions bool
}

func newModel(c config) *model {
	m := &model{config: c, takes: [][]uint8{make([]uint8, len(c.available))}}
	numbers := make(map[string]int)
	for _, taken := range c.choices {
		units := make([]uint8, len(c.available))
		for resource, amount := range taken {
			number, seen := numbers[resource]
			if !seen {
				number = len(numbers)
				numbers[resource] = number
				m.units = append(m.units, c.available[resource])
				m.isCounted = append(m.isCounted, c.counted[resource])
			}
			if c.available[resource] == 0 {
				panic(fmt.Sprintf("configuration %q: a choice draws on %q, of which there is nothing; add it to available", c.name, resource))
			}
			units[number] = amount
		}
		m.takes = append(m.takes, units)
	}
	m.needsVersions = c.relists > 0 || c.crashes > 0 || c.lateRequests || c.flaws.has(byReservation)
	return m
}

func (m *model) initial() state {
	s := state{now: 1, crashes: m.crashes, relists: m.relists, deletions: m.deletions, failures: m.failures, republishes: m.republishes}
	for i := range m.claims {
		s.claims[i].version = 1
	}
	for i := range m.schedulers {
		v := &s.views[i]
		v.upTo = 1
		for j := range m.claims {
			v.claims[j].version = 1
		}
	}
	m.normal(&s)
	return s
}

// normal brings a state into the form in which equal states are recognised.
func (m *model) normal(s *state) {
	n := sizes{len(m.claims), m.schedulers, len(m.pods)}
	s.forgetDelivered(n)
	if !m.needsVersions {
		for i := range m.claims {
			s.claims[i].version = 0
			for j := range m.schedulers {
				s.views[j].claims[i].version = 0
			}
		}
	}
	s.renumber(n)
}
