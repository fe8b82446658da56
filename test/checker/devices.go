package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// holding is one entry of an allocation. Entries with admin access are no holdings:
// they take nothing away from others (KEP-5018).
type holding struct {
	claim  *resourceapi.ResourceClaim
	result *resourceapi.DeviceRequestAllocationResult
}

func (h holding) String() string {
	kind := "exclusively"
	if h.result.ShareID != nil {
		kind = fmt.Sprintf("as share %s", *h.result.ShareID)
	}
	return fmt.Sprintf("%s, request %s (%s)", claimObject(h.claim), h.result.Request, kind)
}

// holdings returns the holders of each device, in the order of the claims.
func holdings(claims []*resourceapi.ResourceClaim) map[deviceID][]holding {
	held := map[deviceID][]holding{}
	for _, claim := range claims {
		for i := range Results(claim) {
			result := &Results(claim)[i]
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := deviceOf(result)
			held[id] = append(held[id], holding{claim, result})
		}
	}
	return held
}

func sortedDevices(held map[deviceID][]holding) []deviceID {
	return slices.SortedFunc(maps.Keys(held), deviceID.compare)
}

// checkHolders: an exclusively allocated device has at most one holder, and holders of
// a shared device have different shares.
func checkHolders(r *report, s *snapshot) {
	held := s.heldBy
	for _, id := range sortedDevices(held) {
		holders := held[id]
		if len(holders) < 2 {
			continue
		}
		device, published := s.device(id)
		exclusive := slices.IndexFunc(holders, func(h holding) bool { return h.result.ShareID == nil })
		switch {
		case exclusive >= 0:
			r.violation(DeviceHeldTwice, "device "+id.String(), "%s holds it, so nobody else may, but there are %d holders: %s", holders[exclusive], len(holders), list(holders))
		case published && !device.shareable():
			r.violation(DeviceHeldTwice, "device "+id.String(), "it does not allow multiple allocations, but there are %d holders: %s", len(holders), list(holders))
		case !distinctShares(holders):
			r.violation(DeviceHeldTwice, "device "+id.String(), "each holder must have a share of its own, but there are: %s", list(holders))
		}
	}
}

// isHeldTwice reports whether one of several holders has the device for itself.
func isHeldTwice(holders []holding) bool {
	return len(holders) > 1 && slices.ContainsFunc(holders, func(h holding) bool { return h.result.ShareID == nil })
}

func distinctShares(holders []holding) bool {
	seen := map[types.UID]bool{}
	for _, h := range holders {
		if seen[*h.result.ShareID] {
			return false
		}
		seen[*h.result.ShareID] = true
	}
	return true
}

func list(holders []holding) string {
	var names []string
	for _, h := range holders {
		names = append(names, h.String())
	}
	return strings.Join(names, "; ")
}

// checkCapacity: the shares of a device do not consume more than its capacity (KEP-5075).
func checkCapacity(r *report, s *snapshot) {
	held := s.heldBy
	for _, id := range sortedDevices(held) {
		object := "device " + id.String()
		consumed := map[resourceapi.QualifiedName]resource.Quantity{}
		for _, h := range held[id] {
			for name, amount := range h.result.ConsumedCapacity {
				if amount.Sign() < 0 {
					r.violation(CapacityExceeded, object, "%s consumes a negative amount of %s: %s", h, name, amount.String())
				}
				sum := consumed[name]
				sum.Add(amount)
				consumed[name] = sum
			}
		}
		device, published := s.device(id)
		if !published {
			continue // Reported by checkDevicesExist.
		}
		for _, name := range sortedKeys(consumed) {
			sum := consumed[name]
			capacity, found := device.Capacity[name]
			switch {
			case !found:
				r.missing(object, "%s of its capacity %s is consumed, but it does not have that capacity", sum.String(), name)
			case sum.Cmp(capacity.Value) > 0:
				r.violation(CapacityExceeded, object, "it has %s of %s, but %s is consumed by: %s", capacity.Value.String(), name, sum.String(), list(held[id]))
			}
		}
	}
}

// checkCounters: the allocated devices of a pool do not consume more of a shared counter than its
// value (KEP-4815). The counters may be in other slices of the pool than the devices, and a device
// counts once for all its shares.
func checkCounters(r *report, s *snapshot) {
	held := s.heldBy
	inUse := map[poolID][]deviceID{}
	for _, id := range sortedDevices(held) {
		inUse[id.pool] = append(inUse[id.pool], id)
	}
	for _, p := range s.pools {
		checkPoolCounters(r, p, inUse[p.id])
	}
}

type counterID struct{ set, name string }

func checkPoolCounters(r *report, p *pool, inUse []deviceID) {
	object := "pool " + p.id.String()
	consumed := map[counterID]resource.Quantity{}
	consumers := map[counterID][]string{}
	for _, id := range inUse {
		device, published := p.devices[id.name]
		if !published {
			continue
		}
		for _, consumption := range device.ConsumesCounters {
			for name, counter := range consumption.Counters {
				key := counterID{set: counterSetOf(device.slice, consumption.CounterSet), name: name}
				sum := consumed[key]
				sum.Add(counter.Value)
				consumed[key] = sum
				consumers[key] = append(consumers[key], id.name)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(consumed), func(a, b counterID) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.name, b.name))
	})
	for _, key := range keys {
		sum := consumed[key]
		available, found := p.counters[key.set][key.name]
		switch {
		case !found:
			r.missing(object, "devices %s consume counter %s/%s, but it is not published", strings.Join(consumers[key], ", "), key.set, key.name)
		case sum.Cmp(available) > 0:
			r.violation(CounterOverdrawn, object, "counter %s/%s has %s, but %s is consumed by the devices in use: %s", key.set, key.name, available.String(), sum.String(), strings.Join(consumers[key], ", "))
		}
	}
}

// checkDevicesExist: allocated devices are published.
func checkDevicesExist(r *report, s *snapshot) {
	for _, claim := range s.claims {
		for i := range Results(claim) {
			result := &Results(claim)[i]
			if _, published := s.device(deviceOf(result)); !published {
				r.missing(claimObject(claim), "request %s has device %s, but that device is not in the current generation of its pool", result.Request, deviceOf(result))
			}
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
