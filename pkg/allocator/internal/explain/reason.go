package explain

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Reason returns a one-line reason why a search found nothing, with the claim, the request and the cause, and
// the classification of the cause.
func Reason(facts Facts) (string, Blame) {
	q := inquiry{facts}
	if q.GaveUp() {
		return q.gaveUp(), BlameSearch
	}
	why, trouble := q.why(), q.poolTrouble()
	return why.text + trouble, blame(why, trouble)
}

// blame classifies a finding. Pools that are left out are to blame only if it would not help that other
// claims release their devices.
func blame(why finding, poolTrouble string) Blame {
	switch {
	case why.fails:
		return BlameSelectors
	case why.combined:
		return BlameCombination
	case !why.lasting:
		return BlameClaims
	case poolTrouble != "":
		return BlamePools
	}
	return BlameDevices
}

// finding describes a problem. The zero value means that there is none.
type finding struct {
	text string
	// lasting is set if the problem does not end when other claims release their devices.
	lasting bool
	// combined is set if there are enough devices for each request, but not in combination.
	combined bool
	// fails is set if a selector fails.
	fails bool
	// detail returns current numbers, for an Explanation. It may be nil.
	detail func() string
}

// why returns the problem. Lasting problems come before those that waiting cures, and problems of one request
// before those of several together.
func (q inquiry) why() finding {
	alone := q.firstShortage()
	if alone.lasting {
		return alone
	}
	together := q.tooFewTogether()
	switch {
	case together.lasting:
		return together
	case alone.text != "":
		return alone
	case together.text != "":
		return together
	}
	found := q.combined()
	found.combined = true
	return found
}

// firstShortage returns the shortage of the first request that cannot be satisfied even alone. It prefers a
// request that could not be satisfied even if other claims had no devices.
func (q inquiry) firstShortage() finding {
	var first finding
	for _, c := range q.Asked().Claims() {
		for i := range c.Slots {
			found := q.slotShortage(&c.Slots[i])
			if found.text == "" {
				continue
			}
			text := fmt.Sprintf("claim %s request %s: %s", dra.Of(c.API), c.Slots[i].Name, found.text)
			if found.lasting {
				return finding{text: text, lasting: true, fails: found.fails}
			}
			if first.text == "" {
				first.text = text
			}
		}
	}
	return first
}

// gaveUp returns the reason of a search that ran out of its budget, which says nothing about the devices. It
// contains the budget, not the progress of the search, which differs between nodes.
func (q inquiry) gaveUp() string {
	budget, common := q.Budget()
	used := "after " + search.Plural(budget, "step", "steps")
	if common {
		used = "because the searches on all nodes together have used up their steps"
	}
	return fmt.Sprintf("%s: gave up looking for devices %s; there may be a solution (fewer requests or constraints in a claim make it easier to find)", q.names(), used)
}

// Brief names the claims, but not the cause.
func Brief(facts Facts) string {
	return inquiry{facts}.names() + ": no devices for this on the node; other nodes like this one say why"
}

// names lists the claims of the task.
func (q inquiry) names() string { return claimNames(q.Asked().Claims()) }

func claimNames(claims []*task.Claim) string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = dra.Of(c.API)
	}
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return "claims " + search.Join(names)
}

// poolTrouble describes the pools that were left out of the search, "" if there are none.
func (q inquiry) poolTrouble() string {
	updated := func(pool *inventory.NodePool) bool { return pool.State == inventory.Incomplete && len(pool.Off) == 0 }
	needing := func(pool *inventory.NodePool) bool { return pool.State == inventory.Incomplete && len(pool.Off) > 0 }
	invalid := func(pool *inventory.NodePool) bool { return pool.State == inventory.Invalid }
	return q.leftOut(updated, "because its driver is updating it", "because their drivers are updating them") +
		q.leftOut(needing, "because it needs a feature that is off", "because they need a feature that is off") +
		q.leftOut(invalid, "as invalid", "as invalid")
}

// mayUse reports whether a request may get devices of the pool, as far as the pool's driver determines that.
func (q inquiry) mayUse(pool *inventory.NodePool) bool {
	for _, c := range q.Asked().Claims() {
		for _, slot := range c.Slots {
			for _, r := range slot.Alternatives {
				if r.Class == nil || q.Asked().Settings().Evaluator.MayMatch(r.Wanted, pool.ID.Driver) {
					return true
				}
			}
		}
	}
	return false
}

// leftOut describes the pools of a kind that the claims may use. It gives the error, or the features that are
// off, only for the first pool.
func (q inquiry) leftOut(isMeant func(*inventory.NodePool) bool, itsReason, theirReason string) string {
	count, first := 0, (*inventory.NodePool)(nil)
	for _, pool := range q.Pools() {
		if isMeant(pool) && q.mayUse(pool) {
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
		text = fmt.Sprintf("; %s is left out %s", q.poolName(first), itsReason)
	default:
		text = fmt.Sprintf("; %d of the node's resource pools are left out %s", count, theirReason)
	}
	switch {
	case first.State == inventory.Invalid:
		text += " (" + first.Reason + ")"
	case len(first.Off) > 0:
		text += " (" + strings.Join(first.Off, "; ") + ")"
	}
	return text
}

// poolName returns the name of a pool. It omits a name that contains the node's name, because each node would
// have a different reason, and the reader knows the node.
func (q inquiry) poolName(pool *inventory.NodePool) string {
	if strings.Contains(pool.ID.Name, q.Node().Name) {
		return "the node's resource pool of driver " + pool.ID.Driver
	}
	return "resource pool " + pool.ID.String()
}

// Blame classifies the reason that keeps claims from devices on a node. It is coarse, for metrics.
type Blame int

const (
	// BlameUnknown means that the reason was not determined.
	BlameUnknown Blame = iota
	// BlameSearch means that the search ran out of its budget; there may be a solution.
	BlameSearch
	// BlameClaims means that devices may become free when other claims release theirs.
	BlameClaims
	// BlameCombination means that each request could have its devices, but not all together. Whether that
	// ends is unknown.
	BlameCombination
	// BlamePools means that there are no devices, whatever other claims do, but that pools of the node are
	// left out because they are incomplete or invalid.
	BlamePools
	// BlameSelectors means that selectors fail on devices that might match otherwise.
	BlameSelectors
	// BlameDevices means that there are no devices, whatever other claims do.
	BlameDevices
)
