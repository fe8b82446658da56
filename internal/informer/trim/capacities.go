package trim

import (
	"crypto/sha256"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// capacityMap has the capacities of a device.
type capacityMap = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

// capacityBytes limits the memory of known capacities. Beyond it, the cache starts empty again, and later devices
// share only with each other. Go has no weak pointers to maps, so entries stay when their last device is gone.
const capacityBytes = 8 << 20

// capacities deduplicates the capacities of devices. It is safe for concurrent use.
type capacities struct {
	most, taken int
	mutex       sync.Mutex
	known       map[digest]capacityMap
}

// get returns a shared map for devices with equal capacities.
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

// capacitySize returns an upper bound of the memory of capacities with an encoding of so many bytes: the shortest
// part, a quantity of one digit, grows from 5 bytes to 64.
func capacitySize(encoded int) int { return 16*encoded + 1024 }
