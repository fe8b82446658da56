package explain

import (
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// A Cause keeps a request from a device that matches its class and selectors. If several apply, the first in
// the order below counts: causes that last come before causes that end when other claims release their devices.
type Cause int

const (
	// Available devices have no cause against them.
	Available Cause = iota
	// Unreachable devices are in a slice for the node, but select other nodes
	// themselves (perDeviceNodeSelection).
	Unreachable
	// Unsupported devices need a feature that is off, here or on the node.
	Unsupported
	// OfNode devices stand for resources of the node, or need some of them (KEP-5517), and the solver was
	// configured to refuse such devices.
	OfNode
	// TooSmall devices never have the requested capacity, or their request policies do not allow the amount (KEP-5075).
	TooSmall
	// AttributeMissing devices lack an attribute that a constraint of the claim needs.
	AttributeMissing
	// Tainted devices have a taint that the request does not tolerate (KEP-5055).
	Tainted
	// Held devices belong to other claims.
	Held
	// Full devices are shared and have too little left of a capacity (KEP-5075).
	Full
	// CounterShort devices draw on a counter with too little left (KEP-4815).
	CounterShort
	// CounterUnknown devices draw on counters whose remaining amount is unknown: a device in use, which may
	// draw on any counter of the pool, is not published any more.
	CounterUnknown
	// Incompatible devices have no compatibility group in common with devices in use
	// that draw on the same counter set.
	Incompatible

	CauseCount int = iota
)

// causeWords are the texts for a cause: its name, and its predicate for one device and for several.
var causeWords = [CauseCount]struct{ name, singular, plural string }{
	Available:   {"available", "is free", "are free"},
	Unreachable: {"unreachable", "is for other nodes", "are for other nodes"},
	Unsupported: {"unsupported", "needs a feature that is off", "need a feature that is off"},
	OfNode: {"of node", "stands for or needs resources of the node that this scheduler cannot account for",
		"stand for or need resources of the node that this scheduler cannot account for"},
	TooSmall:         {"too small", "lacks the capacity asked for", "lack the capacity asked for"},
	AttributeMissing: {"attribute missing", "lacks an attribute that a constraint needs", "lack an attribute that a constraint needs"},
	Tainted:          {"tainted", "has a taint that is not tolerated", "have taints that are not tolerated"},
	Held:             {"held", "held by another claim", "held by other claims"},
	Full:             {"full", "has too little capacity left", "have too little capacity left"},
	CounterShort:     {"counter short", "draws on counters that have too little left", "draw on counters that have too little left"},
	CounterUnknown: {"counter unknown", "draws on the same counters as devices in use that are not published any more",
		"draw on the same counters as devices in use that are not published any more"},
	Incompatible: {"incompatible", "not compatible with devices in use", "not compatible with devices in use"},
}

// String returns the name of the cause.
func (c Cause) String() string { return causeWords[c].name }

// MarshalText returns the name, because numbers would change with every new cause.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// EndsByItself reports whether the cause ends when other claims release their devices.
func EndsByItself(c Cause) bool { return c >= Held }

// Lasts reports whether the cause stays, whatever other claims do.
func Lasts(c Cause) bool { return !EndsByItself(c) }

// Predicate returns a text about a number of devices with the cause. names are the taints, counters and so on
// behind the cause. It omits them if there are many, because each node would have a different selection of them.
func Predicate(c Cause, devices int, names []string) string {
	text := causeWords[c].plural
	if devices == 1 {
		text = causeWords[c].singular
	}
	if len(names) > 0 && len(names) <= search.NamedAtMost {
		text += " (" + strings.Join(names, "; ") + ")"
	}
	return text
}
