package claimevents

import (
	"strconv"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

const (
	// maxNote is how many bytes the API server accepts (Event.Note of events.k8s.io/v1).
	maxNote = 1024
	// maxDevices is how many devices a note names, and maxNames how many bytes their names may take together, so that
	// there is room for the rest. The first one is named in any case: it takes 381 bytes at most.
	maxDevices = 8
	maxNames   = 512
	// ellipsis stands for what was cut off.
	ellipsis = "…"
)

// note says what has happened to which devices, where, and why.
func note(verb string, change claimwriter.Change) string {
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

// devices names the devices of an allocation, each once.
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

// nodeOf returns the node where the pod is to run, or the only one where the allocation can be used; "" if neither
// is known.
func nodeOf(change claimwriter.Change) string {
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
