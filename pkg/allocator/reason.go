package allocator

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Reason says in one line why there is no solution: which claim and request, and
// the cause. It is computed on demand and only after a failed Solve. Numbers that
// differ from node to node without telling the user anything are left out, so
// that the reasons of many nodes are few.
func (o *Outcome) Reason() string {
	s := o.search
	if o.GaveUp {
		return fmt.Sprintf("%s: gave up looking for devices after %d tries, there may be a solution; "+
			"fewer requests or constraints in a claim make it easier to find", s.names(), o.Steps-1)
	}
	for _, c := range s.claims {
		for i := range c.slots {
			if shortage := s.slotShortage(&c.slots[i]); shortage != "" {
				return fmt.Sprintf("claim %s, request %s: %s%s",
					klog.KObj(c.api), c.slots[i].name, shortage, s.poolTrouble())
			}
		}
	}
	return s.conflict() + s.poolTrouble()
}

// names lists the claims of the task.
func (s *search) names() string {
	names := make([]string, len(s.claims))
	for i, c := range s.claims {
		names[i] = klog.KObj(c.api).String()
	}
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return "claims " + strings.Join(names, ", ")
}

// slotShortage says why a request cannot be satisfied even if it is alone, or "".
func (s *search) slotShortage(slot *slot) string {
	if len(slot.alternatives) == 1 && slot.alternatives[0].parent == "" {
		return s.shortage(slot.alternatives[0])
	}
	var reasons []string
	for _, r := range slot.alternatives {
		reason := s.shortage(r)
		if reason == "" {
			return ""
		}
		reasons = append(reasons, r.name+": "+reason)
	}
	return "no alternative fits (" + strings.Join(reasons, "; ") + ")"
}

// tally counts the devices that match a request by the first thing that keeps the
// request from having them.
type tally struct {
	published   int // on the node, whether they match or not
	match       int
	held        int
	tainted     int
	unsupported int
	full        int // too little of a capacity is left, or the device never had enough
	short       int // partitions for which too little is left of a counter
	free        int
}

func (s *search) tally(r *request) tally {
	var t tally
	for i, pool := range s.site.Pools {
		if pool.State != inventory.Complete {
			continue
		}
		t.published += pool.Reachable.Len()
		usage := s.site.Usage.Pool(pool.ID)
		occupied, unsupported := s.occupied(usage, pool), s.unsupported(s.site.Node, pool)
		for device := range s.candidates(r.id, i).selection.Matches.All() {
			if !pool.Reachable.Has(device) || r.all() && has(s.hidden(pool), device) {
				continue
			}
			t.match++
			switch {
			case !r.admin && has(occupied, device):
				t.held++
			case s.solver.Features.DeviceTaints && !r.tolerates(pool.Devices[device].Taints):
				t.tainted++
			case has(unsupported, device), has(s.hidden(pool), device):
				t.unsupported++
			case !s.candidates(r.id, i).usable.Has(device):
				t.full++
			case pool.Partitions.Has(device) && !covers(usage.Remaining(pool), nil, &pool.Devices[device]):
				t.short++
			default:
				t.free++
			}
		}
	}
	return t
}

// has is Has for a set that may be nil.
func has(set bitset.Set, device int) bool { return set != nil && set.Has(device) }

// shortage says why there are too few devices for a request, or "".
func (s *search) shortage(r *request) string {
	t := s.tally(r)
	wanted := s.count[r.id]
	switch {
	case t.published == 0:
		return "the node has no devices that can be used"
	case wanted > resourceapi.AllocationResultsMaxSize:
		return fmt.Sprintf("%d devices are wanted, but a claim can have at most %d", wanted, resourceapi.AllocationResultsMaxSize)
	case t.match == 0 && (r.all() || wanted > 0):
		return "no device matches"
	case r.all() && t.free < t.match:
		return fmt.Sprintf("%s and all are wanted, but not all are free%s", t.matches(), t.others())
	case t.match < wanted:
		return fmt.Sprintf("%s, %d are wanted", t.matches(), wanted)
	case t.free == 0 && wanted > 0:
		return t.matches() + t.breakdown()
	case t.free < wanted:
		return fmt.Sprintf("%s, but fewer than the %d wanted are free%s", t.matches(), wanted, t.others())
	}
	return ""
}

func (t *tally) matches() string {
	if t.match == 1 {
		return "1 device matches"
	}
	return fmt.Sprintf("%d devices match", t.match)
}

// causes are the reasons in words, for one device and for several.
func (t *tally) causes() []struct {
	count            int
	singular, plural string
} {
	return []struct {
		count            int
		singular, plural string
	}{
		{t.held, "is held by other claims", "are held by other claims"},
		{t.tainted, "has a taint that is not tolerated", "have taints that are not tolerated"},
		{t.unsupported, "needs a feature that is off", "need a feature that is off"},
		{t.full, "has too little capacity left", "have too little capacity left"},
		{t.short, "draws on counters that devices in use have exhausted", "draw on counters that devices in use have exhausted"},
	}
}

// breakdown says why no device is free. A single cause comes with its number, which
// then is that of the node's hardware more than of the moment. With several, the
// numbers would differ from node to node.
func (t *tally) breakdown() string {
	for _, cause := range t.causes() {
		switch {
		case cause.count < t.match:
		case cause.count == 1:
			return ", 1 " + cause.singular
		default:
			return fmt.Sprintf(", %d %s", cause.count, cause.plural)
		}
	}
	return ", but all " + t.words()
}

// others names the causes without numbers, "" if there are none.
func (t *tally) others() string {
	words := t.words()
	if words == "" {
		return ""
	}
	return " (others " + words + ")"
}

// words joins the causes that apply to any device.
func (t *tally) words() string {
	var words []string
	for _, cause := range t.causes() {
		if cause.count > 0 {
			words = append(words, cause.plural)
		}
	}
	return strings.Join(words, " or ")
}

// poolTrouble mentions pools that were left out of the search.
func (s *search) poolTrouble() string {
	incomplete, invalid, because := 0, 0, ""
	for _, pool := range s.site.Pools {
		switch pool.State {
		case inventory.Incomplete:
			incomplete++
		case inventory.Invalid:
			invalid++
			because = pool.Reason
		}
	}
	var b strings.Builder
	if incomplete > 0 {
		fmt.Fprintf(&b, "; %d of the node's resource pools left out because their driver is updating them", incomplete)
	}
	if invalid > 0 {
		fmt.Fprintf(&b, "; %d of the node's resource pools left out as invalid (%s)", invalid, because)
	}
	return b.String()
}
