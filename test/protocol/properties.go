package protocol

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// Texts for broken properties.
const (
	heldTwice      = "two claims hold the same"
	withoutDevices = "does not have the devices it was bound for"
	notReserved    = "is not reserved for it"
	firstReleases  = "a claim that was allocated first is to be released, though the order was known"
)

// broken returns the property that the state breaks, or "".
func (m *model) broken(s *state) string {
	inUse := make([]uint8, len(m.units))
	var counted uint8
	for p, pod := range m.pods {
		is := &s.pods[p]
		if is.phase != protocol.Bound || is.deleted {
			continue
		}
		c := s.claims[pod.claim]
		switch {
		case c.allocation != is.plan:
			return fmt.Sprintf("%s is bound, but %s %s", podName(uint8(p)), claimName(pod.claim), withoutDevices)
		case c.reserved&bit(uint8(p)) == 0:
			return fmt.Sprintf("%s is bound, but %s %s", podName(uint8(p)), claimName(pod.claim), notReserved)
		case counted&bit(pod.claim) != 0:
			continue
		}
		counted |= bit(pod.claim)
		for resource, units := range m.takes[c.allocation] {
			inUse[resource] += units
		}
	}
	for resource, units := range inUse {
		if units > m.units[resource] {
			return fmt.Sprintf("bound pods use %d of %d units: %s", units, m.units[resource], heldTwice)
		}
	}
	return ""
}

// done reports whether all pods that exist are bound.
func (m *model) done(s *state) bool {
	for p := range m.pods {
		if s.pods[p].phase != protocol.Bound && !s.pods[p].deleted {
			return false
		}
	}
	return true
}
