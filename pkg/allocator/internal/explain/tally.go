package explain

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// tally counts the devices of a request by the cause against them.
type tally struct {
	published int // reachable from the node, matching or not
	ofClass   int // match at least the class
	match     int // match and are reachable
	elsewhere int // match, but are for other nodes
	counts    [CauseCount]int
	// names holds, by cause, the distinct taints, counters and so on, with the numbers of the device that
	// lacks the least.
	names [CauseCount]map[string]lack
	// failed is the number of devices on which a selector fails, failure the error for the first of them by name.
	failed  int
	failure *selector.Error
}

// lack describes the requested and the existing amount of a capacity or counter. The zero value means that
// the name says all.
type lack struct {
	text string
	by   resource.Quantity
}

func (q inquiry) tally(r *task.Request) tally {
	var t tally
	pools := q.inspect(r)
	for i := range pools {
		t.add(&pools[i], q.Wanted(r))
	}
	return t
}

func (t *tally) add(in *inspection, wanted int) {
	t.published += in.pool.Reachable.Len()
	if in.request.Selectors != nil {
		t.ofClass += in.ofClass().Len()
	}
	t.addFailures(in)
	for device := range in.selection.Matches.All() {
		cause := in.cause(device)
		switch {
		case cause == Unreachable:
			t.elsewhere++
			continue
		case wanted > 0 && in.ignores(device):
			continue
		}
		t.match++
		t.counts[cause]++
		for name, lacks := range in.names(device, cause) {
			t.note(cause, name, lacks)
		}
	}
}

// note records a name, with the least lack.
func (t *tally) note(cause Cause, name string, lacks lack) {
	if t.names[cause] == nil {
		t.names[cause] = make(map[string]lack)
	}
	if known, found := t.names[cause][name]; !found || isLess(lacks.by, known.by) {
		t.names[cause][name] = lacks
	}
}

// told returns the names behind a cause, with their texts, in order.
func (t *tally) told(cause Cause) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t.names[cause])) {
		if text := t.names[cause][name].text; text != "" {
			name += ": " + text
		}
		list = append(list, name)
	}
	return list
}

// addFailures counts the reachable devices on which a selector fails, regardless of their holders.
func (t *tally) addFailures(in *inspection) {
	for device := range in.selection.Failed.All() {
		if !in.pool.Reachable.Has(device) {
			continue
		}
		t.failed++
		if found := in.failure(device); t.failure == nil || found.Device < t.failure.Device {
			t.failure = found
		}
	}
}

// names returns the names behind the cause for a device that are likely the same on other nodes.
func (in *inspection) names(device int, cause Cause) map[string]lack {
	names := make(map[string]lack)
	add := func(list ...string) {
		for _, name := range list {
			names[name] = lack{}
		}
	}
	published := &in.pool.Devices[device]
	switch cause {
	case Unsupported:
		add(in.features(device)...)
	case OfNode:
		add(in.ofNode(device)...)
	case TooSmall:
		for _, unfit := range in.unfitCapacities(published) {
			names[unfit.name] = unfit.lack
		}
	case AttributeMissing:
		add(in.missingAttribute(device))
	case Tainted:
		for _, taint := range in.taints(device) {
			add(taint.Key)
		}
	case Full:
		for _, short := range in.shortCapacities(published) {
			names[short.name] = short.lack()
		}
	case CounterShort:
		for _, short := range in.shortCounters(device) {
			if known, found := names[short.counter()]; !found || isLess(short.by(), known.by) {
				names[short.counter()] = short.lack()
			}
		}
	case CounterUnknown:
		add(in.unknown()...)
	}
	return names
}

func (t *tally) free() int { return t.counts[Available] }

// lasting returns the number of devices that would be unavailable even if other claims had none.
func (t *tally) lasting() int {
	n := 0
	for _, cause := range t.causes() {
		if Lasts(cause) {
			n += t.counts[cause]
		}
	}
	return n
}

// causes returns the causes that apply to any device, in their order.
func (t *tally) causes() []Cause {
	var list []Cause
	for cause := Available + 1; int(cause) < CauseCount; cause++ {
		if t.counts[cause] > 0 {
			list = append(list, cause)
		}
	}
	return list
}
