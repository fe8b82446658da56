package capacity

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Amounts are quantities by capacity of a device.
type Amounts map[resourceapi.QualifiedName]resource.Quantity

// Used returns what claims consume of a device's capacities.
func Used(usage *ledger.PoolUsage, device *inventory.Device) Amounts {
	shares := usage.Device(device.Name).Shares
	if len(shares) == 0 {
		return nil
	}
	sum := make(Amounts)
	for _, share := range shares {
		sum.Add(share.Consumed)
	}
	return sum
}

// Fit reports whether the amounts can be taken from a device in addition to what
// is taken already.
func (a Amounts) Fit(device *inventory.Device, taken ...Amounts) bool {
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

// Add adds amounts in place.
func (a Amounts) Add(more map[resourceapi.QualifiedName]resource.Quantity) {
	for name, amount := range more {
		sum := a[name].DeepCopy()
		sum.Add(amount)
		a[name] = sum
	}
}

// Subtract undoes Add.
func (a Amounts) Subtract(less map[resourceapi.QualifiedName]resource.Quantity) {
	for name, amount := range less {
		rest := a[name].DeepCopy()
		rest.Sub(amount)
		a[name] = rest
	}
}
