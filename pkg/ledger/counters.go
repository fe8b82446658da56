package ledger

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Counters are quantities by counter set and counter (KEP-4815).
type Counters map[string]map[string]resource.Quantity

// Remaining returns what is left of the pool's counters after all devices in use
// have drawn from them, whoever uses them and for whichever node. A counter can
// be negative if a driver published less than was already in use. A device that
// is in use but not published any more draws nothing: nobody knows how much.
// The result is shared and must not be changed.
func (u *PoolUsage) Remaining(pool *inventory.NodePool) Counters {
	return project(&u.remaining, pool, func() Counters {
		left := make(Counters, len(pool.Counters))
		for name, set := range pool.Counters {
			left[name] = make(map[string]resource.Quantity, len(set.Counters))
			for counter, published := range set.Counters {
				left[name][counter] = published.Value.DeepCopy()
			}
		}
		for _, devices := range [][]inventory.Device{pool.Devices, pool.Elsewhere} {
			for _, device := range devices {
				if _, used := u.Devices[device.Name]; used {
					left.subtract(device)
				}
			}
		}
		return left
	})
}

func (c Counters) subtract(device inventory.Device) {
	for _, consumption := range device.ConsumesCounters {
		set := c[consumption.CounterSet]
		for counter, consumed := range consumption.Counters {
			value := set[counter]
			value.Sub(consumed.Value)
			set[counter] = value
		}
	}
}

// Clone returns a copy that can be changed.
func (c Counters) Clone() Counters {
	clone := make(Counters, len(c))
	for name, set := range c {
		clone[name] = make(map[string]resource.Quantity, len(set))
		for counter, value := range set {
			clone[name][counter] = value.DeepCopy()
		}
	}
	return clone
}
