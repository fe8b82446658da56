package allocator

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// tooFew is a cheap bound: there are not as many candidates left as devices are
// missing. It does not apply if a failing device lies ahead, because then the
// answer is that device's error.
func (s *search) tooFew(r *request, missing int, start location) bool {
	if s.unpruned {
		return false
	}
	free, takenDevices := 0, s.taken.against(r)
	for pool := start.pool; pool < len(s.site.Pools); pool++ {
		c, taken, from := s.candidates(r.id, pool), takenDevices[pool], start.in(pool)
		if c.failing.LenWithout(taken, from) > 0 {
			return false
		}
		if free += c.usable.LenWithout(taken, from); free >= missing {
			return false
		}
	}
	return true
}

// classes groups devices that are interchangeable in a search: the same requests
// can use them, they look the same to all constraints and draw the same from the
// same counters. If a search with one of them in some place has no solution, it
// has none with another: in a solution the two could be swapped. So each class
// needs to be tried only once in each place.
//
// Class numbers are computed when a search first turns back, which most never do.
type classes struct {
	numbers map[string]int
	of      map[location]int
}

// deadClasses are the classes which were tried in one place of the search. Devices
// of one class differ if they were taken by different claims before, which only
// admin access allows.
type deadClasses []deadClass

type deadClass struct {
	number int
	tried  location
}

func (d *deadClasses) add(s *search, at location) {
	if s.interchangeable() {
		*d = append(*d, deadClass{s.classes.number(s, at), at})
	}
}

func (d *deadClasses) contains(s *search, at location) bool {
	if len(*d) == 0 {
		return false
	}
	number := s.classes.number(s, at)
	return slices.ContainsFunc(*d, func(dead deadClass) bool {
		return dead.number == number && s.taken.bySameClaims(dead.tried, at)
	})
}

// interchangeable reports whether classes say all there is to say. They do not if
// a request wants all devices and its claim has constraints: breaking a constraint
// then is an error, so it matters which device is met first.
func (s *search) interchangeable() bool {
	return !s.unpruned && !slices.ContainsFunc(s.requests, func(r *request) bool {
		return r.all() && len(r.claim.constraints) > 0
	})
}

func (c *classes) number(s *search, at location) int {
	if number, found := c.of[at]; found {
		return number
	}
	if c.of == nil {
		c.of, c.numbers = make(map[location]int), make(map[string]int)
	}
	signature := s.signature(at)
	number, found := c.numbers[signature]
	if !found {
		number = len(c.numbers)
		c.numbers[signature] = number
	}
	c.of[at] = number
	return number
}

// signature encodes everything about a device that the rest of a search can see.
func (s *search) signature(at location) string {
	var b []byte
	for id := range s.requests {
		var bits byte
		if c := s.candidates(id, at.pool); c.usable != nil {
			if c.usable.Has(at.device) {
				bits |= 1
			}
			if c.failing.Has(at.device) {
				bits |= 2
			}
		}
		b = append(b, bits)
	}
	device := s.device(at)
	if s.shared(device) {
		return string(appendLocation(append(b, '!'), at)) // Each has a fill level of its own.
	}
	for i, constraints := range s.constraints {
		for j := range constraints {
			b = s.appendConstraint(append(b, '|'), s.claims[i], &constraints[j], at)
		}
	}
	if len(device.ConsumesCounters) == 0 {
		return string(b)
	}
	b = binary.AppendVarint(append(b, '#'), int64(at.pool))
	for _, consumption := range device.ConsumesCounters {
		b = appendText(b, consumption.CounterSet)
		b = appendText(b, strings.Join(slices.Sorted(slices.Values(consumption.CompatibilityGroups)), " "))
		b = binary.AppendVarint(b, int64(len(consumption.Counters)))
		for _, name := range slices.Sorted(maps.Keys(consumption.Counters)) {
			amount := consumption.Counters[name]
			b = appendText(b, name)
			b = appendText(b, amount.Value.String())
		}
	}
	return string(b)
}

// appendConstraint encodes what a constraint of a claim sees of a device: the
// published attribute, and what requests derive instead.
func (s *search) appendConstraint(b []byte, claim *claim, c *scopedConstraint, at location) []byte {
	device := s.device(at)
	b = c.appendAttribute(b, c.name.lookup(device), at)
	for _, r := range claim.requestsWithDerived() {
		if c.appliesTo(r) {
			// Errors are no concern: with any of them the search is not pruned.
			attribute, _ := s.attribute(r, device, c.name)
			b = c.appendAttribute(append(b, '/'), attribute, at)
		}
	}
	return b
}

func (c *scopedConstraint) appendAttribute(b []byte, attribute *resourceapi.DeviceAttribute, at location) []byte {
	if attribute == nil {
		return b
	}
	own := values(attribute, c.lists)
	if len(own) == 0 && c.api.DistinctAttribute != nil {
		// distinctAttribute accepts a value of unknown type from the first device,
		// but not from a later one. So the order matters, and no other device can
		// stand in for this one.
		return appendLocation(append(b, '?'), at)
	}
	b = append(b, '=')
	for _, v := range own {
		b = append(b, byte(v.kind))
		b = binary.AppendVarint(b, v.num)
		b = appendText(b, v.text)
	}
	return b
}

func appendLocation(b []byte, at location) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, int64(at.pool)), int64(at.device))
}

// appendText appends a string so that no two sequences of strings look the same.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendVarint(b, int64(len(text))), text...)
}
