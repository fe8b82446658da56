package explain

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/report"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// tally counts the devices of a request by what keeps the request from having them.
type tally struct {
	published int // on the node and reachable, whether they match or not
	ofClass   int // match at least the class
	match     int // reachable ones
	elsewhere int // match, but are for other nodes
	counts    [report.CauseCount]int
	// names are, by cause, the different taints, counters and so on.
	names [report.CauseCount][]string
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
	for device := range in.selection.Matches.All() {
		cause := in.cause(device)
		switch {
		case cause == report.Unreachable:
			t.elsewhere++
			continue
		case wanted > 0 && in.ignores(device):
			continue
		}
		t.match++
		t.counts[cause]++
		for _, name := range in.names(device, cause) {
			if !slices.Contains(t.names[cause], name) {
				t.names[cause] = append(t.names[cause], name)
			}
		}
	}
	for cause := range t.names {
		slices.Sort(t.names[cause])
	}
}

// names are what a cause is about for a device: those names that are likely the same
// on other nodes.
func (in *inspection) names(device int, cause report.Cause) []string {
	var names []string
	published := &in.pool.Devices[device]
	switch cause {
	case report.Unsupported:
		return in.features(device)
	case report.OfNode:
		return in.ofNode(device)
	case report.TooSmall:
		for _, unfit := range in.unfitCapacities(published) {
			names = append(names, unfit.name)
		}
	case report.AttributeMissing:
		return append(names, in.missingAttribute(device))
	case report.Tainted:
		for _, taint := range in.taints(device) {
			names = append(names, taint.Key)
		}
	case report.Full:
		for _, short := range in.shortCapacities(published) {
			names = append(names, short.name)
		}
	case report.CounterShort:
		for _, short := range in.shortCounters(device) {
			names = append(names, short.counter())
		}
	case report.CounterUnknown:
		return in.unknown()
	}
	return names
}

func (t *tally) free() int { return t.counts[report.Available] }

// lasting is how many of the devices could not be had even if other claims had none.
func (t *tally) lasting() int {
	n := 0
	for _, cause := range t.causes() {
		if report.Lasts(cause) {
			n += t.counts[cause]
		}
	}
	return n
}

// causes lists those which apply to any device, in their order.
func (t *tally) causes() []report.Cause {
	var list []report.Cause
	for cause := report.Available + 1; int(cause) < report.CauseCount; cause++ {
		if t.counts[cause] > 0 {
			list = append(list, cause)
		}
	}
	return list
}
