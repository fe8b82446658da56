package slim

import (
	"crypto/sha256"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// capacityMap is what a device has of capacities.
type capacityMap = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

// capacityBytes is what capacities take that are remembered. Beyond that, it begins anew, and devices that come later share with each
// other only. Nothing can refer weakly to a map, so what is remembered stays when its last device is gone.
const capacityBytes = 8 << 20

// capacities finds the capacities that devices have. It is safe for concurrent use.
type capacities struct {
	most, taken int
	mutex       sync.Mutex
	known       map[digest]capacityMap
}

// get returns capacities that all devices share which have the same.
func (c *capacities) get(of capacityMap) capacityMap {
	if len(of) == 0 {
		return nil
	}
	encoded, err := (&resourceapi.Device{Capacity: of}).Marshal()
	if err != nil {
		return of
	}
	key := sha256.Sum256(encoded)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found, ok := c.known[key]; ok {
		return found
	}
	size := capacitySize(len(encoded))
	if c.known == nil || c.taken+size > c.most {
		c.known, c.taken = make(map[digest]capacityMap), 0
	}
	if size <= c.most {
		c.known[key] = of
		c.taken += size
	}
	return of
}

// capacitySize is at least what capacities take that have an encoding of so many bytes: the shortest part is a quantity of one digit, 5
// bytes that become 64.
func capacitySize(encoded int) int { return 16*encoded + 1024 }
