package allocator_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// describeOutcome writes down an outcome.
func describeOutcome(claims []*resourceapi.ResourceClaim, outcome *allocator.Outcome) string {
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Name)
	}
	all, steps := strings.Join(names, ", "), plural(outcome.Steps, "step")
	switch {
	case outcome.GaveUp:
		// The reason tells the number of tries.
		return fmt.Sprintf("%s: gave up\n%s", all, wrap("reason: ", outcome.Reason()))
	case !outcome.Fits() && len(claims) > 1:
		return fmt.Sprintf("%s: do not fit together (%s)\n%s", all, steps, wrap("reason: ", outcome.Reason()))
	case !outcome.Fits():
		return fmt.Sprintf("%s: does not fit (%s)\n%s", all, steps, wrap("reason: ", outcome.Reason()))
	}
	var lines []string
	for i := range outcome.Results {
		lines = append(lines, names[i]+": fits on "+nodesOf(outcome.Results[i].NodeSelector))
		lines = append(lines, describeAllocation(&outcome.Results[i])...)
	}
	return fmt.Sprintf("%s\n(%s)", strings.Join(lines, "\n"), steps)
}

// describeAllocation has a line for each device and each configuration.
func describeAllocation(allocation *resourceapi.AllocationResult) []string {
	var lines []string
	for i := range allocation.Devices.Results {
		lines = append(lines, "  "+describeDevice(&allocation.Devices.Results[i]))
	}
	for _, config := range allocation.Devices.Config {
		requests := "all requests"
		if len(config.Requests) > 0 {
			requests = strings.Join(config.Requests, ", ")
		}
		lines = append(lines, fmt.Sprintf("  config for %s from %s: %s %s", requests, config.Source,
			config.Opaque.Driver, config.Opaque.Parameters.Raw))
	}
	return lines
}

func describeDevice(result *resourceapi.DeviceRequestAllocationResult) string {
	text := fmt.Sprintf("%s: %s/%s/%s", result.Request, result.Driver, result.Pool, result.Device)
	if ptr.Deref(result.AdminAccess, false) {
		text += ", admin access"
	}
	if result.ShareID != nil {
		var consumed []string
		for _, name := range slices.Sorted(maps.Keys(result.ConsumedCapacity)) {
			quantity := result.ConsumedCapacity[name]
			consumed = append(consumed, fmt.Sprintf("%s=%s", name, quantity.String()))
		}
		text += ", " + string(*result.ShareID)
		if len(consumed) > 0 {
			text += " with " + strings.Join(consumed, " ")
		}
	}
	if len(result.BindingConditions) > 0 {
		text += fmt.Sprintf(", after %s unless %s", strings.Join(result.BindingConditions, " "),
			strings.Join(result.BindingFailureConditions, " "))
	}
	for _, toleration := range result.Tolerations {
		text += fmt.Sprintf(", tolerates %s %s", cmp.Or(toleration.Key, "any taint"), cmp.Or(toleration.Effect, "with any effect"))
	}
	return text
}

// nodesOf says where an allocation can be used.
func nodesOf(selector *v1.NodeSelector) string {
	if selector == nil {
		return "any node"
	}
	var terms []string
	for _, term := range selector.NodeSelectorTerms {
		var parts []string
		for _, r := range slices.Concat(term.MatchFields, term.MatchExpressions) {
			parts = append(parts, fmt.Sprintf("%s %s [%s]", r.Key, r.Operator, strings.Join(r.Values, " ")))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return "nodes with " + strings.Join(terms, " or ")
}

// holders lists who holds what, by claim.
func (w *world) holders() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(w.held)) {
		var devices []string
		for _, result := range w.held[name].Devices.Results {
			devices = append(devices, result.Device)
		}
		lines = append(lines, fmt.Sprintf("%s holds %s", name, strings.Join(devices, " ")))
	}
	if len(lines) == 0 {
		return "nobody holds anything"
	}
	return strings.Join(lines, "\n")
}

// wrap breaks a text at spaces into lines of at most 100 columns where words allow it,
// the first of which begins with a title and the others with as many spaces.
func wrap(title, text string) string {
	return wrapped(title, strings.Repeat(" ", len(title)), text)
}

// wrapLines breaks each line of a text. What is broken off is indented deeper.
func wrapLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		lines = append(lines, wrapped(indent, indent+"    ", line))
	}
	return strings.Join(lines, "\n")
}

func wrapped(first, others, text string) string {
	var lines []string
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > 100 && !empty {
			lines = append(lines, strings.TrimSuffix(line, " "))
			line = others
		}
		line, empty = line+word+" ", false
	}
	return strings.Join(append(lines, strings.TrimSuffix(line, " ")), "\n")
}
