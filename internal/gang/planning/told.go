package planning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
)

// requests returns how many devices of which class a pod still needs: of alternatives the first one counts, and a
// request for all devices as one.
func requests(pod *trial.Pod) map[string]int64 {
	counts := make(map[string]int64)
	for _, claim := range pod.Open {
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			switch {
			case request.Exactly != nil && request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll:
				counts[request.Exactly.DeviceClassName]++
			case request.Exactly != nil:
				counts[request.Exactly.DeviceClassName] += max(request.Exactly.Count, 1)
			case len(request.FirstAvailable) > 0:
				counts[request.FirstAvailable[0].DeviceClassName] += max(request.FirstAvailable[0].Count, 1)
			}
		}
	}
	return counts
}

// devicesOf is how many devices a pod needs.
func devicesOf(m *Member) (n int64) {
	for _, count := range requests(&m.Pod) {
		n += count
	}
	return n
}

// Classes returns the device classes of which something is missing.
func (o *Outcome) Classes() (names []string) {
	missing := make(map[string]bool)
	for i := range o.Left {
		for class := range requests(&o.Left[i].Pod.Pod) {
			missing[class] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// Reason says why a gang does not fit, "" if it does: how many pods do, and what is missing for the others. holders
// says who has what of the classes that are missing, "" if that is not to be told.
func (o *Outcome) Reason(holders func(classes []string) string) string {
	if o.Plan != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d pods fit", o.Fit, o.Need)
	if o.Wish.Required {
		fmt.Fprintf(&b, " into one domain (%s)", o.Wish.Key)
	}
	switch {
	case o.Pending != nil:
		return fmt.Sprintf("it is not known yet whether all %d pods fit: %v", o.Need, o.Pending)
	case o.GaveUp:
		fmt.Fprintf(&b, " as far as was looked: the search gave up; fewer kinds of pods in the group, or a larger gangStepBudget among the scheduler's arguments, would help")
	}
	if missing := o.missing(); missing != "" {
		fmt.Fprintf(&b, ": %s", missing)
	}
	if classes := o.Classes(); len(classes) > 0 {
		if held := holders(classes); held != "" {
			fmt.Fprintf(&b, "; %s", held)
		}
	}
	return b.String()
}

// mostRefusals is how many reasons of other plugins are told.
const mostRefusals = 3

// missing says what is missing: devices by class, and what other plugins said of nodes.
func (o *Outcome) missing() string {
	devices, refusals := make(map[string]int64), make(map[string]int)
	for i := range o.Left {
		left := &o.Left[i]
		for class, n := range requests(&left.Pod.Pod) {
			devices[class] += n * int64(left.Pods)
		}
		for why, nodes := range left.Refusals {
			refusals[why] += nodes
		}
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(devices)) {
		parts = append(parts, fmt.Sprintf("%d more %s of class %s", devices[class], plural(devices[class], "device"), class))
	}
	why := slices.SortedFunc(maps.Keys(refusals), func(a, b string) int {
		if refusals[a] != refusals[b] {
			return refusals[b] - refusals[a]
		}
		return strings.Compare(a, b)
	})
	for _, reason := range why[:min(len(why), mostRefusals)] {
		parts = append(parts, fmt.Sprintf("%d %s: %s", refusals[reason], plural(int64(refusals[reason]), "node"), reason))
	}
	return strings.Join(parts, ", ")
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
