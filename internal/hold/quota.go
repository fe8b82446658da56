package hold

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// quota counts the devices that are held.
type quota struct {
	world *World
	// held counts by class, and by namespace and class.
	held map[string]int
	of   map[[2]string]int
}

func newQuota(w *World) *quota {
	return &quota{world: w, held: make(map[string]int), of: make(map[[2]string]int)}
}

// exceeded returns a class whose limits would be exceeded by more devices for a holder, "" if there is none.
func (q *quota) exceeded(one *Waiting, more map[string]int) string {
	limits := q.world.Limits
	for _, class := range slices.Sorted(maps.Keys(more)) {
		n, all := more[class], q.world.Devices(class)
		if 100*(q.held[class]+n) > limits.Percent*all || 100*(q.of[[2]string{one.Namespace, class}]+n) > limits.PercentOfNamespace*all {
			return class
		}
	}
	return ""
}

// describe returns what is too much if exceeded returned a class.
func (q *quota) describe(class string, more int) string {
	limits := q.world.Limits
	return fmt.Sprintf("%d devices of class %s are more than may be held beside the other holds: %d%% of %d devices; %d%% for one namespace",
		more, class, limits.Percent, q.world.Devices(class), limits.PercentOfNamespace)
}

// count adds what is held for a holder.
func (q *quota) count(one *Waiting, more map[string]int) {
	for class, n := range more {
		q.held[class] += n
		q.of[[2]string{one.Namespace, class}] += n
	}
}

// devicesByClass returns the number of devices of each class in some allocations.
func (w *World) devicesByClass(uses ...ledger.Use) map[string]int {
	devices := make(map[string]int)
	for _, use := range uses {
		for result := range ledger.Used(use.Allocation) {
			devices[w.ClassOf(use.Claim, result.Request)]++
		}
	}
	return devices
}
