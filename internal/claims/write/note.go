package write

import (
	"strconv"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// maxNote is the maximum size in bytes that the API server accepts (Event.Note of
	// events.k8s.io/v1).
	maxNote = 1024
	// maxDevices limits the devices that a note names, and maxNames the bytes of their names, so
	// that there is room for the rest. The first device is always named; its name takes at most 381
	// bytes.
	maxDevices = 8
	maxNames   = 512
	// ellipsis marks a truncated note.
	ellipsis = "…"
)

// note describes the change of an allocation: the devices, the node and the cause.
func note(verb string, change Change) string {
	text := verb + " " + devices(change.Allocation)
	if node := nodeOf(change); node != "" {
		text += " on node " + node
	}
	if change.Cause.Why != "" {
		text += " " + change.Cause.Why
	}
	if len(text) <= maxNote {
		return text
	}
	end := maxNote - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// devices lists the devices of an allocation, each once.
func devices(allocation *resourceapi.AllocationResult) string {
	var names []string
	seen := make(map[string]bool)
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		name := result.Driver + "/" + result.Pool + "/" + result.Device
		if ptr.Deref(result.AdminAccess, false) {
			name += " (admin access)"
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no devices"
	}
	named, bytes := 0, 0
	for ; named < min(len(names), maxDevices); named++ {
		if bytes += len(names[named]); named > 0 && bytes > maxNames {
			break
		}
	}
	text := strings.Join(names[:named], ", ")
	if more := len(names) - named; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// nodeOf returns the node where the pod should run, or the only node where the allocation can be
// used; "" if neither is known.
func nodeOf(change Change) string {
	if change.Cause.Node != "" {
		return change.Cause.Node
	}
	selector := change.Allocation.NodeSelector
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, field := range selector.NodeSelectorTerms[0].MatchFields {
		if field.Key == metav1.ObjectNameField && len(field.Values) == 1 && field.Operator == "In" {
			return field.Values[0]
		}
	}
	return ""
}
