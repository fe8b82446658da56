package allocator

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// shared reports whether the device can be allocated several times.
func (s *search) shared(device *inventory.Device) bool {
	return s.solver.Features.ConsumableCapacity && ptr.Deref(device.AllowMultipleAllocations, false)
}

// measures reports whether capacity decides about the candidates of a request. For
// allocation mode All it does not: such a request wants a device even if it cannot
// have it.
func (s *search) measures(r *request) bool {
	return s.solver.Features.ConsumableCapacity && !r.all()
}

// measure sorts out devices whose capacities do not suffice for a request, given
// what is in use of them, and marks those as failing for which the request makes
// no sense.
func (s *search) measure(r *request, pool *inventory.NodePool, usage *ledger.PoolUsage, c *candidates) {
	var failing bitset.Set
	for i := range c.measurable.All() {
		device := &pool.Devices[i]
		if s.takesWhole(r, device) {
			continue
		}
		needed, err := s.solver.consume(r.capacity, device.Capacity)
		switch {
		case err != nil:
			if failing == nil {
				failing, c.capacityErrors = bitset.New(len(pool.Devices)), make(map[int]error)
			}
			c.capacityErrors[i] = err
			failing.Add(i)
			c.usable.Remove(i)
		case needed.refused || !needed.amounts.fit(device, used(usage, device)):
			c.usable.Remove(i)
		default:
			if c.consumptions == nil {
				c.consumptions = make(map[int]consumption)
			}
			c.consumptions[i] = needed
		}
	}
	if failing != nil {
		failing.Or(c.failing)
		c.failing = failing
	}
}

// fitsWhole reports whether the request fits a device of which nothing is in use.
func (s *search) fitsWhole(r *request, device *inventory.Device) (bool, error) {
	if s.takesWhole(r, device) {
		return true, nil
	}
	needed, err := s.solver.consume(r.capacity, device.Capacity)
	return err == nil && !needed.refused && needed.amounts.fit(device), err
}

// takesWhole reports whether there is no need to look at a device's capacities.
func (s *search) takesWhole(r *request, device *inventory.Device) bool {
	return !s.solver.Features.ConsumableCapacity || r.capacity == nil && plainCapacity(device)
}

// plainCapacity is true for devices of which a request that asks for no capacity
// always takes everything, and for which nothing can be wrong with that.
func plainCapacity(device *inventory.Device) bool {
	if ptr.Deref(device.AllowMultipleAllocations, false) {
		return false
	}
	for _, capacity := range device.Capacity {
		if capacity.RequestPolicy != nil || capacity.Value.Sign() < 0 {
			return false
		}
	}
	return true
}

// used returns what claims consume of a device's capacities.
func used(usage *ledger.PoolUsage, device *inventory.Device) amounts {
	shares := usage.Devices[device.Name].Shares
	if len(shares) == 0 {
		return nil
	}
	sum := make(amounts)
	for _, share := range shares {
		sum.add(share.Consumed)
	}
	return sum
}

// fit reports whether the amounts can be taken from a device in addition to what
// is taken already.
func (a amounts) fit(device *inventory.Device, taken ...amounts) bool {
	for name, capacity := range device.Capacity {
		sum := a[name].DeepCopy()
		for _, t := range taken {
			sum.Add(t[name])
		}
		if sum.Cmp(capacity.Value) > 0 {
			return false
		}
	}
	return true
}

func (a amounts) add(more map[resourceapi.QualifiedName]resource.Quantity) {
	for name, amount := range more {
		sum := a[name].DeepCopy()
		sum.Add(amount)
		a[name] = sum
	}
}

func (a amounts) subtract(less map[resourceapi.QualifiedName]resource.Quantity) {
	for name, amount := range less {
		rest := a[name].DeepCopy()
		rest.Sub(amount)
		a[name] = rest
	}
}

// sharing is what the search itself has taken of devices that can be shared.
type sharing map[location]*deviceSharing

type deviceSharing struct {
	shares int
	taken  amounts
}

// inUse reports whether anybody, also the search itself, has a share of the device.
// Its counters are then accounted for.
func (s *search) inUse(at location, device *inventory.Device) bool {
	if d := s.sharing[at]; d != nil && d.shares > 0 {
		return true
	}
	return len(s.site.Usage.Pool(s.site.Pools[at.pool].ID).Devices[device.Name].Shares) > 0
}

// consumption returns what a request takes of a device.
func (s *search) consumption(r *request, at location, device *inventory.Device) consumption {
	if known, found := s.candidates(r.id, at.pool).consumptions[at.device]; found {
		return known
	}
	// Errors were found before: by measure, or for allocation mode All by addAll.
	needed, _ := s.solver.consume(r.capacity, device.Capacity)
	return needed
}

// hasRoom reports whether the device has enough capacity left for the request.
func (s *search) hasRoom(r *request, at location, device *inventory.Device) bool {
	if s.takesWhole(r, device) {
		return true
	}
	var own amounts
	if d := s.sharing[at]; d != nil {
		own = d.taken
	} else if !r.all() {
		return true // Nothing changed since measure.
	}
	needed := s.consumption(r, at, device)
	usage := s.site.Usage.Pool(s.site.Pools[at.pool].ID)
	return !needed.refused && needed.amounts.fit(device, used(usage, device), own)
}

// addShare takes a share of a device and returns what that consumes.
func (s *search) addShare(r *request, at location, device *inventory.Device) amounts {
	if s.sharing == nil {
		s.sharing = make(sharing)
	}
	d := s.sharing[at]
	if d == nil {
		d = &deviceSharing{taken: make(amounts)}
		s.sharing[at] = d
	}
	consumed := s.consumption(r, at, device).amounts
	d.shares++
	d.taken.add(consumed)
	return consumed
}

func (s *search) removeShare(at location, consumed amounts) {
	d := s.sharing[at]
	d.shares--
	d.taken.subtract(consumed)
}
