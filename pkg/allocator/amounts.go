package allocator

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// amounts are quantities by capacity of a device.
type amounts map[resourceapi.QualifiedName]resource.Quantity

// used returns what claims consume of a device's capacities.
func used(usage *ledger.PoolUsage, device *inventory.Device) amounts {
	shares := usage.Device(device.Name).Shares
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
