package allocator

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Reason says in one line why there is no solution: which claim and request, and
// the cause. It is computed on demand and only after a failed Solve; "" if there is
// a solution. Numbers and names that differ from node to node without telling the
// user anything are left out, so that the reasons of many nodes are few. Explain has
// them.
func (o *Outcome) Reason() string {
	s := o.search
	switch {
	case s == nil:
		return ""
	case o.GaveUp:
		return s.gaveUp(o.Steps)
	}
	if reason := s.firstShortage(); reason != "" {
		return reason + s.poolTrouble()
	}
	return s.conflict() + s.poolTrouble()
}

// firstShortage is about the first request that cannot be satisfied even if it is
// alone, "" if there is none.
func (s *search) firstShortage() string {
	for _, c := range s.claims {
		for i := range c.slots {
			if shortage := s.slotShortage(&c.slots[i]); shortage != "" {
				return fmt.Sprintf("claim %s, request %s: %s", klog.KObj(c.api), c.slots[i].name, shortage)
			}
		}
	}
	return ""
}

// gaveUp is the reason of a search that ran out of its budget, which says nothing
// about the devices.
func (s *search) gaveUp(steps int) string {
	return fmt.Sprintf("%s: gave up looking for devices after %s, there may be a solution; "+
		"fewer requests or constraints in a claim make it easier to find", s.names(), plural(steps-1, "try", "tries"))
}

// names lists the claims of the task.
func (s *search) names() string { return claimNames(s.claims) }

func claimNames(claims []*claim) string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = klog.KObj(c.api).String()
	}
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return "claims " + join(names)
}

// plural is a number with the right form of a noun.
func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// areWanted is the predicate for a number of devices.
func areWanted(n int) string {
	if n == 1 {
		return "1 is wanted"
	}
	return fmt.Sprintf("%d are wanted", n)
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

// shortage says why there are too few devices for a request, or "".
func (s *search) shortage(r *request) string {
	t, wanted := s.tally(r), s.wantedBy(r)
	switch {
	case t.published == 0:
		return "the node has no devices that can be used"
	case wanted > resourceapi.AllocationResultsMaxSize:
		return fmt.Sprintf("%d devices are wanted, but a claim can have at most %d", wanted, resourceapi.AllocationResultsMaxSize)
	case wanted <= 0 && !r.all():
		return ""
	case t.match == 0:
		return t.noMatch(r)
	case r.all() && (t.free() < t.match || wanted == 0):
		return t.notAll()
	case t.match < wanted:
		return fmt.Sprintf("%s, %s", t.matches(), areWanted(wanted))
	case t.free() == 0:
		return t.none()
	case t.free() < wanted:
		return fmt.Sprintf("%s, but fewer than the %d wanted are free, the rest %s", t.matches(), wanted, t.words(several))
	}
	return ""
}

// noMatch tells a class without devices from selectors that are too strict.
func (t *tally) noMatch(r *request) string {
	switch {
	case t.elsewhere > 0:
		return "no device matches on this node: those that match are for other nodes"
	case t.ofClass > 0:
		return fmt.Sprintf("no device matches: there are some of class %s, but the selectors of the request rule them out", r.className)
	}
	return "no device matches class " + r.className
}

func (t *tally) matches() string { return plural(t.match, "device matches", "devices match") }

// none says why no device is free.
func (t *tally) none() string {
	if t.match == 1 {
		return t.matches() + ", but it " + t.words(1)
	}
	return t.matches() + ", but all " + t.words(t.match)
}

// notAll says why not all devices can be had.
func (t *tally) notAll() string {
	if t.match == 1 {
		return "all matching devices are wanted, but the only one " + t.words(1)
	}
	return fmt.Sprintf("all %d matching devices are wanted, but some %s", t.match, t.words(several))
}

// several stands for a number of devices other than one.
const several = 2

// words joins the causes, for a number of devices of which the reader knows.
func (t *tally) words(devices int) string {
	var words []string
	for _, cause := range t.causes() {
		words = append(words, cause.predicate(devices, t.names[cause]))
	}
	return strings.Join(words, " or ")
}

// poolTrouble mentions pools that were left out of the search, "" if there are none.
func (s *search) poolTrouble() string {
	return s.leftOut(inventory.Incomplete, "because its driver is updating it", "because their drivers are updating them") +
		s.leftOut(inventory.Invalid, "as invalid", "as invalid")
}

// leftOut mentions the pools in a state. What is wrong with an invalid pool is told
// of the first.
func (s *search) leftOut(state inventory.State, itsReason, theirReason string) string {
	count, first := 0, (*inventory.NodePool)(nil)
	for _, pool := range s.site.Pools {
		if pool.State == state {
			if count++; first == nil {
				first = pool
			}
		}
	}
	var text string
	switch {
	case count == 0:
		return ""
	case count == 1:
		text = fmt.Sprintf("; %s is left out %s", s.poolName(first), itsReason)
	default:
		text = fmt.Sprintf("; %d of the node's resource pools are left out %s", count, theirReason)
	}
	if state == inventory.Invalid {
		text += " (" + first.Reason + ")"
	}
	return text
}

// poolName names a pool, but not one that is named after the node: each node would
// have another reason, and the reader knows the node.
func (s *search) poolName(pool *inventory.NodePool) string {
	if strings.Contains(pool.ID.Name, s.site.Node.Name) {
		return "the node's resource pool of driver " + pool.ID.Driver
	}
	return "resource pool " + pool.ID.String()
}
