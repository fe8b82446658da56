package planning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
)

// Limits of messages: the number of listed items of a kind, and the characters of a plugin's reason.
const (
	mostListed = 3
	mostOfOne  = 200
)

// requests returns the number of devices by device class that a pod still needs. Of alternatives the first one counts.
// A request for all devices counts as one. Of extended resources it counts the devices needed on nodes where no device
// plugin offers the resources.
func requests(pod *devices.Pod) map[string]int64 {
	counts := make(map[string]int64)
	open := pod.Open
	if pod.Made != nil {
		open = append(slices.Clip(open), pod.Made.Most)
	}
	for _, claim := range open {
		for request := range dra.Requests(claim) {
			switch {
			case request.Rank > 0:
			case request.All():
				counts[request.Class]++
			default:
				counts[request.Class] += max(request.Count, 1)
			}
		}
	}
	return counts
}

// devicesOf returns the number of devices that a pod needs.
func devicesOf(m *Member) (n int64) {
	for _, count := range requests(&m.Pod) {
		n += count
	}
	return n
}

// missingDevices returns the number of missing devices by device class.
func (o *Outcome) missingDevices() map[string]int64 {
	missing := make(map[string]int64)
	for i := range o.Left {
		left := &o.Left[i]
		if left.Rejected != "" || left.NoDevices == 0 && len(left.Refusals) > 0 {
			continue // These pods do not lack devices.
		}
		for class, n := range requests(&left.Pod.Pod) {
			missing[class] += n * int64(left.Pods)
		}
	}
	return missing
}

// Classes returns the device classes of missing devices, sorted.
func (o *Outcome) Classes() []string { return slices.Sorted(maps.Keys(o.missingDevices())) }

// Reason returns why a gang does not fit, "" if it does: how many pods fit, and what is missing for the others. holders
// describes who holds devices of the given classes, or returns "". The text stays the same as long as nothing changes.
// Its length is limited, whatever plugins and the gang contribute.
func (o *Outcome) Reason(holders func(classes []string) string) string {
	if o.Plan != nil {
		return ""
	}
	if o.Pending != nil {
		return fmt.Sprintf("it is not known yet whether all %d pods fit: %v", o.Need, o.Pending)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d pods fit", o.Fit, o.Need)
	if o.Wish.Required {
		fmt.Fprintf(&b, " into one domain (%s)", o.Wish.Key)
	}
	if o.GaveUp {
		b.WriteString(" as far as was looked: the search gave up; fewer kinds of pods in the group or fewer domains or a larger gangStepBudget among the scheduler's arguments would help")
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

// missing describes what is missing: devices by class, and the reasons of other plugins.
func (o *Outcome) missing() string {
	devices, refusals, rejected := o.missingDevices(), make(map[string]int), make(map[string]string)
	for i := range o.Left {
		left := &o.Left[i]
		if _, told := rejected[left.Rejected]; left.Rejected != "" && !told {
			rejected[left.Rejected] = left.Pod.Name
		}
		for why, nodes := range left.Refusals {
			refusals[why] += nodes
		}
	}
	var parts []string
	list := func(sorted []string, text func(string) string) {
		for _, key := range sorted[:min(len(sorted), mostListed)] {
			parts = append(parts, text(key))
		}
		if more := len(sorted) - mostListed; more > 0 {
			parts = append(parts, fmt.Sprintf("%d more like that", more))
		}
	}
	list(slices.Sorted(maps.Keys(devices)), func(class string) string {
		return fmt.Sprintf("%d more %s of class %s", devices[class], plural(devices[class], "device"), class)
	})
	list(slices.Sorted(maps.Keys(rejected)), func(why string) string { return "pod " + rejected[why] + ": " + cut(why) })
	list(slices.SortedFunc(maps.Keys(refusals), func(a, b string) int {
		if refusals[a] != refusals[b] {
			return refusals[b] - refusals[a]
		}
		return strings.Compare(a, b)
	}), func(why string) string { return ofNodes(refusals[why], why) })
	if len(parts) == 0 && len(o.Left) > 0 {
		return "there is no node that they may be on"
	}
	return strings.Join(parts, "; ")
}

// ofNodes returns a plugin's reason with the number of nodes. Many reasons begin with "node(s)"; the number goes
// before that.
func ofNodes(nodes int, why string) string {
	if strings.HasPrefix(why, "node(s) ") {
		return fmt.Sprintf("%d %s", nodes, cut(why))
	}
	return fmt.Sprintf("%d %s: %s", nodes, plural(int64(nodes), "node"), cut(why))
}

// cut shortens a long text.
func cut(text string) string {
	if runes := []rune(text); len(runes) > mostOfOne {
		return string(runes[:mostOfOne]) + "…"
	}
	return text
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
