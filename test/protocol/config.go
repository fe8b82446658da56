package protocol

import "fmt"

// draw holds the units that a choice takes from each resource. An exclusive device is a resource of
// one unit, a device with capacity is a resource of several units, and so is a counter that several
// devices draw on. Nothing else matters for conflicts.
type draw map[string]uint8

// config is the setup of an exploration.
type config struct {
	name string
	// available holds the units of each resource.
	available map[string]uint8
	// choices are the possible sets of devices; claims lists the choices (counted from 1) that each
	// claim may get.
	choices []draw
	claims  [][]choice
	// pods and schedulers are those that exist. The schedulers named in blind do not
	// follow the protocol: they bind at once.
	pods       []pod
	schedulers int
	blind      map[uint8]bool
	// lag is the maximum number of writes that a watch may be behind. Writes wait while a watch is
	// that far behind, which keeps the number of states finite.
	lag int
	// The maximum numbers of these events in one run: a scheduler crashes and starts again with a
	// fresh list, a watch lists again, a pod is deleted, another step of binding fails after the
	// reservation was written.
	crashes, relists, deletions, failures uint8
	// counted are the resources for which a scheduler needs a complete pool to know how much a
	// device draws. republishes is the maximum number of times that the pool ceases to be complete
	// for a scheduler, which has not seen any complete state then.
	counted     map[string]bool
	republishes uint8
	// spared pods are never deleted and their binding never fails, and spared schedulers never
	// crash: this reduces the number of states.
	sparedPods, sparedSchedulers map[uint8]bool
	// lateRequests: a request that was sent before a crash may arrive at any time afterwards, or
	// never. lateBindings: the same holds for the binding of a pod.
	lateRequests, lateBindings bool
	// waitsForBindings: a possible reservation of a dead process for a pod is not taken back while
	// the pod's binding may be under way.
	waitsForBindings bool
	// settle: yield to a later conflicting claim of others that is known before the pod is bound.
	settle bool
	// settlesLongEnough: decisions that blind schedulers made before they could see an allocation
	// arrive, and are delivered, before its pod is bound.
	settlesLongEnough bool
	// scarce: there are not enough devices for all pods, so some pods may never be bound.
	scarce bool
	// onlySafety checks only bound pods, and ignores claims that yield without need.
	onlySafety bool
	// flaws are the deviations from the protocol.
	flaws flaw
}

// pod is a pod to bind, with its scheduler and its claim.
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
	// joinsLost lets pods join an allocation that has lost a conflict, although their scheduler
	// knows that.
	joinsLost
	// listsExact takes the version of a listed claim for that of its allocation.
	listsExact
	// listsKeepOrder treats an allocation that looks the same after a relist as the same one,
	// although the claim has changed.
	listsKeepOrder
	// listsPiecemeal applies a list claim by claim, as informers do.
	listsPiecemeal
	// missingPasses finds no conflict for a claim whose allocation is gone.
	missingPasses
	// noFence makes no write if the reservation is there already.
	noFence
	// failuresKeep leaves the allocation in place when an attempt fails after its write.
	failuresKeep
	// unknownPasses checks while the pool is not complete, and finds no conflict on counted
	// resources.
	unknownPasses
)

func (f flaw) has(other flaw) bool { return f&other != 0 }

// model is a configuration with the values that are derived from it.
type model struct {
	config
	// takes holds, for each choice, counted from 1, its units of each resource; units holds the
	// available units. Resources are numbered.
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
				panic(fmt.Sprintf("configuration %q: a choice draws on %q, and there is none; add it to available", c.name, resource))
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
