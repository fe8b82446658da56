package capacity

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Amounts are quantities by the name of a device's capacity.
type Amounts map[resourceapi.QualifiedName]resource.Quantity

// Used returns the amounts that claims consume of a device's capacities.
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

// Fit reports whether a device has room for the amounts in addition to those already taken.
func (a Amounts) Fit(device *inventory.Device, taken ...Amounts) bool {
	for name, capacity := range device.Capacity {
		sum := a[name]
		for _, t := range taken {
			sum = quantity.Sum(sum, t[name])
		}
		if quantity.Compare(sum, capacity.Value) > 0 {
			return false
		}
	}
	return true
}

// Add adds amounts in place.
func (a Amounts) Add(more map[resourceapi.QualifiedName]resource.Quantity) {
	for name, added := range more {
		a[name] = quantity.Sum(a[name], added)
	}
}

// Subtract reverses Add.
func (a Amounts) Subtract(less map[resourceapi.QualifiedName]resource.Quantity) {
	for name, taken := range less {
		a[name] = quantity.Difference(a[name], taken)
	}
}
