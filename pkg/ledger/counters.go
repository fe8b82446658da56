package ledger

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Counters are quantities by counter set and counter (KEP-4815).
type Counters map[string]map[string]resource.Quantity

// Remaining is what is left of a pool's counters. It is immutable.
type Remaining struct {
	Counters Counters
	// Overdrawn is true if any counter is negative: a driver published less than was
	// already in use. Nothing that draws on counters can be allocated from the pool
	// until that is settled.
	Overdrawn bool
}

// unusedKey is where a pool keeps what is left if nothing is in use.
type unusedKey struct{}

// Remaining returns what is left of the pool's counters after all devices in use
// have drawn from them, whoever uses them and for whichever node. A device that
// is in use but not published any more draws nothing: nobody knows how much.
func (u *PoolUsage) Remaining(pool *inventory.NodePool) *Remaining {
	if len(u.Devices) == 0 {
		if cached, found := pool.Verdicts.Get(unusedKey{}); found {
			return cached.(*Remaining)
		}
		return pool.Verdicts.Put(unusedKey{}, u.remainingOf(pool)).(*Remaining)
	}
	return project(&u.remaining, pool, func() *Remaining { return u.remainingOf(pool) })
}

func (u *PoolUsage) remainingOf(pool *inventory.NodePool) *Remaining {
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
	return &Remaining{Counters: left, Overdrawn: left.negative()}
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

func (c Counters) negative() bool {
	for _, set := range c {
		for _, value := range set {
			if value.Sign() < 0 {
				return true
			}
		}
	}
	return false
}
