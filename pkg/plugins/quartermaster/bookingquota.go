package quartermaster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/hold"
)

// exceedsQuota is the reason of a condition for a booking beyond the quota of its namespace.
const exceedsQuota = "ExceedsQuota"

// withinQuota returns those of the bookings of a namespace, in the order of their starts, that are within its quota, and refuses the others:
// pods could not use what is held for these.
func withinQuota(all []*booked, quota map[string]int64) (within []*booked) {
	if len(quota) == 0 {
		return all
	}
	left := maps.Clone(quota)
	for _, one := range all {
		devices := one.Devices()
		for _, class := range slices.Sorted(maps.Keys(devices)) {
			if n, limited := left[class]; limited && n < devices[class] {
				one.refusal = hold.Refusal{Reason: exceedsQuota, Message: fmt.Sprintf(
					"%d devices of class %s exceed a ResourceQuota: it allows %d for the namespace, and %d of them are for bookings that start earlier; book fewer or raise the quota",
					devices[class], class, quota[class], quota[class]-n)}
				break
			}
		}
		if one.refusal.Reason != "" {
			continue
		}
		for class, n := range devices {
			if _, limited := left[class]; limited {
				left[class] -= n
			}
		}
		within = append(within, one)
	}
	return within
}
