package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// shared reports whether the device allows multiple allocations.
func (s *Search) shared(at location) bool { return bitset.Has(s.pools[at.pool].shareable, at.device) }

// toMeasure returns the candidates whose capacity decides whether a request can have them, nil if there are none.
// For allocation mode All capacity does not decide, because such a request wants even devices that it cannot have.
func (s *Search) toMeasure(r *task.Request, p *poolState, c *candidates) bitset.Set {
	if !p.measuring || r.All() || r.Capacity == nil && p.measured().Empty() {
		return nil
	}
	set := c.usable.Clone()
	if r.Capacity == nil {
		set.And(p.measured())
	}
	return set
}

// measure excludes devices whose capacities do not suffice for a request, given their current use. It marks
// devices as failing for which the request makes no sense.
func (s *Search) measure(r *task.Request, p *poolState, devices bitset.Set, c *candidates) {
	for i := range devices.All() {
		s.measureDevice(r, p, i, c)
	}
}

func (s *Search) measureDevice(r *task.Request, p *poolState, i int, c *candidates) {
	device := &p.pool.Devices[i]
	needed, err := s.Settings().Capacities().Consume(r.Capacity, device.Capacity)
	var used capacity.Amounts
	if !r.TakesNothing {
		used = capacity.Used(p.usage, device)
	}
	switch {
	case err != nil:
		if c.capacityErrors == nil {
			// The set may be shared with the cache.
			c.failing, c.capacityErrors = c.failing.Clone(), make(map[int]error)
		}
		c.capacityErrors[i] = err
		c.failing.Add(i)
		c.usable.Remove(i)
	case needed.Refused || !needed.Amounts.Fit(device, used):
		c.usable.Remove(i)
	default:
		if c.consumptions == nil {
			c.consumptions = make(map[int]capacity.Consumption)
		}
		c.consumptions[i] = needed
	}
}

// fitsWhole reports whether the request fits an unused device.
func (s *Search) fitsWhole(r *task.Request, at location) (bool, error) {
	if s.takesWhole(r, at) {
		return true, nil
	}
	device := s.device(at)
	needed, err := s.Settings().Capacities().Consume(r.Capacity, device.Capacity)
	return err == nil && !needed.Refused && needed.Amounts.Fit(device), err
}

// takesWhole reports whether a device's capacities need no check.
func (s *Search) takesWhole(r *task.Request, at location) bool {
	p := &s.pools[at.pool]
	return !p.measuring || r.Capacity == nil && !p.measures(at.device)
}

// sharing holds the shares that the search itself has taken.
type sharing map[location]*deviceSharing

type deviceSharing struct {
	shares int
	taken  capacity.Amounts
}

// inUse reports whether there is any share of the device, including shares of the search itself. Its counters
// are then accounted for already.
func (s *Search) inUse(at location) bool {
	if d := s.sharing[at]; d != nil && d.shares > 0 {
		return true
	}
	return len(s.pools[at.pool].usage.Device(s.device(at).Name).Shares) > 0
}

// consumption returns the amounts that a request takes of a device.
func (s *Search) consumption(r *task.Request, at location) capacity.Consumption {
	if known, found := s.candidates(r, at.pool).consumptions[at.device]; found {
		return known
	}
	// Errors were found before: by measure or, for allocation mode All, by addAll.
	needed, _ := s.Settings().Capacities().Consume(r.Capacity, s.device(at).Capacity)
	return needed
}

// hasRoom reports whether the device has enough capacity left for the request.
func (s *Search) hasRoom(r *task.Request, at location) bool {
	if r.TakesNothing || s.takesWhole(r, at) {
		return true
	}
	var own capacity.Amounts
	if d := s.sharing[at]; d != nil {
		own = d.taken
	} else if !r.All() {
		return true // Nothing changed since measure.
	}
	needed, device := s.consumption(r, at), s.device(at)
	return !needed.Refused && needed.Amounts.Fit(device, capacity.Used(s.pools[at.pool].usage, device), own)
}

// addShare takes a share of a device and returns the consumed amounts.
func (s *Search) addShare(r *task.Request, at location) capacity.Amounts {
	if s.sharing == nil {
		s.sharing = make(sharing)
	}
	d := s.sharing[at]
	if d == nil {
		d = &deviceSharing{taken: make(capacity.Amounts)}
		s.sharing[at] = d
	}
	consumed := s.consumption(r, at).Amounts
	d.shares++
	d.taken.Add(consumed)
	return consumed
}

func (s *Search) removeShare(at location, consumed capacity.Amounts) {
	d := s.sharing[at]
	d.shares--
	d.taken.Subtract(consumed)
}
