package allocator_test

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The part of the validity check about capacity, counters, compatibility groups and configuration, which
// relate devices to each other.

// checkShares: each share has a unique ID. Each amount is allowed by the device and at least the requested
// one. All amounts together, with those that claims already have, do not exceed the device.
func (i *inspection) checkShares() {
	seen := make(map[types.UID]bool)
	for _, g := range i.granted {
		shared := i.isShared(g.device)
		if (g.result.ShareID != nil) != shared {
			i.problem("%s: share ID %v, but it is shared: %v", g.id(), g.result.ShareID, shared)
		}
		if shared && seen[ptr.Deref(g.result.ShareID, "")] {
			i.problem("share %v is there twice", *g.result.ShareID)
		}
		seen[ptr.Deref(g.result.ShareID, "")] = true
		if i.features.ConsumableCapacity {
			i.checkCapacity(g)
		}
	}
}

func (i *inspection) checkCapacity(g granted) {
	own, refused, err := i.consumed(g.wish.Capacity, g.device)
	if err != nil || refused {
		i.problem("%s does not allow what %s asks for: %v", g.id(), g.result.Request, err)
		return
	}
	for name, asked := range ptr.Deref(g.wish.Capacity, resourceapi.CapacityRequirements{}).Requests {
		if got := own[name]; got.Cmp(asked) < 0 {
			i.problem("%s: %s of %s, but %s asked for", g.id(), got.String(), name, asked.String())
		}
	}
	if i.takesNothing(g) {
		return
	}
	taken := []amounts{}
	for _, other := range i.granted {
		if other.id() == g.id() && i.isShared(g.device) {
			taken = append(taken, other.result.ConsumedCapacity)
		}
	}
	if !i.isShared(g.device) {
		taken = append(taken, own)
	}
	if !i.hasRoomFor(g.device, taken...) {
		i.problem("%s has not enough capacity for all", g.id())
	}
}

// checkCounters: the draws of devices in use and the first draws of newly allocated devices do not exceed the
// counters of a pool, and all these devices are compatible. Pools without new allocations may be overdrawn.
func (i *inspection) checkCounters() {
	for _, pool := range poolsOf(i.scenario) {
		all := slices.Concat(pool.here, pool.elsewhere)
		var users []device
		for _, d := range devicesIn(all) {
			if i.inUse(d) {
				users = append(users, d)
			}
		}
		before := len(users)
		for n, g := range i.granted {
			if g.pool() != pool.key || len(g.ConsumesCounters) == 0 || i.isFurtherShare(n) || i.takesNothing(g) {
				continue
			}
			if i.features.CompatibilityGroups && !compatible(users, g.device) {
				i.problem("%s is not compatible with others of its counter sets", g.id())
			}
			users = append(users, g.device)
		}
		if len(users) > before && !countersIn(all).draw(users...) {
			i.problem("pool %v: counters are overdrawn", pool.key)
		}
	}
}

// isFurtherShare reports whether a claim, or an earlier request, has a share of the device already.
func (i *inspection) isFurtherShare(n int) bool {
	g := i.granted[n]
	return i.isShared(g.device) && (i.hasShares(g.device) ||
		slices.ContainsFunc(i.granted[:n], func(other granted) bool { return other.id() == g.id() && !i.takesNothing(other) }))
}

// checkConfig: first comes the configuration of the chosen requests' classes, each class once, then that of
// the claim for any of them. An entry for all requests names none.
func (i *inspection) checkConfig(claim int) {
	spec := i.claims[claim].Spec.Devices
	var names, classes []string // by request, of what was chosen
	for slot := range spec.Requests {
		for _, w := range wishesOf(claim, slot, &spec.Requests[slot]) {
			if slices.ContainsFunc(i.granted, func(g granted) bool { return g.claim == claim && g.wish.name() == w.name() }) {
				names, classes = append(names, w.name()), append(classes, w.DeviceClassName)
			}
		}
	}
	if len(names) != len(spec.Requests) {
		return // Reported already, or a request for no device at all.
	}
	var want []resourceapi.DeviceAllocationConfiguration
	add := func(source resourceapi.AllocationConfigSource, requests []string, config resourceapi.DeviceConfiguration) {
		missing := slices.ContainsFunc(names, func(name string) bool {
			return !slices.Contains(requests, name) && !slices.Contains(requests, spec.Requests[slices.Index(names, name)].Name)
		})
		if !missing {
			requests = nil
		}
		want = append(want, resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests, DeviceConfiguration: config})
	}
	for n, class := range classes {
		if slices.Contains(classes[:n], class) {
			continue
		}
		var requests []string
		for m, name := range names {
			if classes[m] == class {
				requests = append(requests, name)
			}
		}
		for _, config := range i.classes[class].Spec.Config {
			add(resourceapi.AllocationConfigSourceClass, requests, config.DeviceConfiguration)
		}
	}
	for _, config := range spec.Config {
		concerned := slices.ContainsFunc(config.Requests, func(name string) bool {
			return slices.Contains(names, name) || slices.ContainsFunc(spec.Requests, func(r resourceapi.DeviceRequest) bool { return r.Name == name })
		})
		if concerned || len(config.Requests) == 0 {
			add(resourceapi.AllocationConfigSourceClaim, config.Requests, config.DeviceConfiguration)
		}
	}
	if diff := diffOf(want, i.results[claim].Devices.Config); diff != "" {
		i.problem("config of claim %d (-want +got): %s", claim, diff)
	}
}
