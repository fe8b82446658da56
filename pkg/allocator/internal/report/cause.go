package report

import (
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/words"
)

// Cause is what keeps a request from a device that matches its class and selectors.
// If there are several, the first in the order below counts: those that last come
// before those that end when other claims release their devices.
type Cause int

const (
	// Available devices can be had: there is no cause.
	Available Cause = iota
	// Unreachable devices are in a slice for the node, but select other nodes
	// themselves (perDeviceNodeSelection).
	Unreachable
	// Unsupported devices need a feature that is off, here or on the node.
	Unsupported
	// OfNode devices stand for resources of the node, or need some (KEP-5517), and the solver
	// was told to refuse such devices.
	OfNode
	// TooSmall devices never have the capacity that is asked for, or their request
	// policies do not allow the amount (KEP-5075).
	TooSmall
	// AttributeMissing devices lack an attribute that a constraint of the claim is about.
	AttributeMissing
	// Tainted devices have a taint that the request does not tolerate (KEP-5055).
	Tainted
	// Held devices belong to other claims.
	Held
	// Full devices are shared and have too little left of a capacity (KEP-5075).
	Full
	// CounterShort devices draw on a counter of which too little is left (KEP-4815).
	CounterShort
	// CounterUnknown devices draw on counters of which nobody knows what is left: a device in use, which may
	// draw on any counter of the pool, is not published any more.
	CounterUnknown
	// Incompatible devices have no compatibility group in common with devices in use
	// that draw on the same counter set.
	Incompatible

	CauseCount int = iota
)

// causeWords are the words for a cause: its name, and the predicate for one device
// and for several.
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
	CounterShort:     {"counter short", "draws on counters of which too little is left", "draw on counters of which too little is left"},
	CounterUnknown: {"counter unknown", "draws on counters of which nobody knows what devices draw that are in use and not published any more",
		"draw on counters of which nobody knows what devices draw that are in use and not published any more"},
	Incompatible: {"incompatible", "not compatible with devices in use", "not compatible with devices in use"},
}

// String names the cause in one or two words.
func (c Cause) String() string { return causeWords[c].name }

// MarshalText writes the name into JSON: numbers would change with every cause that is added.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// EndsByItself reports whether the cause is gone once other claims have released
// what they have.
func EndsByItself(c Cause) bool { return c >= Held }

// Lasts reports whether the cause stays whatever other claims do.
func Lasts(c Cause) bool { return !EndsByItself(c) }

// Predicate is what the cause says about a number of devices. The names are those
// of the taints, counters and so on that it is about. Many are not told: each node
// would have another choice of them.
func Predicate(c Cause, devices int, names []string) string {
	text := causeWords[c].plural
	if devices == 1 {
		text = causeWords[c].singular
	}
	if len(names) > 0 && len(names) <= words.NamedAtMost {
		text += " (" + strings.Join(names, "; ") + ")"
	}
	return text
}
