package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Near is a node with the number of devices that it lacks. The number is a minimum: it treats each
// request and each constraint by itself.
type Near struct {
	Node    string `json:"node"`
	Devices int    `json:"devices"`
	// Lacking describes the missing devices, and any resource that is short there.
	Lacking []string `json:"lacking"`
	// Explanation explains the node in full.
	Explanation *allocator.Explanation `json:"-"`
	// InFull is Explanation as a text of several lines. It names extended resources instead of the
	// claim.
	InFull string `json:"-"`

	// resource is a resource that is short as well, "" if only devices are missing.
	resource v1.ResourceName
}

// addNear keeps the nearest nodes. Nodes where freed devices would not help are not near, and nodes
// that lack a resource as well rank last. The number of devices does not tell whether they can be
// used together, for example partitions that consume the same counters; wouldDo checks that for the
// few nodes that count as near.
func addNear(all []Near, full *allocator.Explanation, short *shortfall, wouldDo func() bool) []Near {
	devices, lacking, possible := distance(full)
	if !possible || devices == 0 {
		return all
	}
	resource := v1.ResourceName("")
	if short != nil {
		resource = short.resource
		lacking = append(lacking, fmt.Sprintf("more %s: %s asked, %s free", resource, short.amount(short.asked), short.amount(max(0, short.free))))
	}
	all = append(all, Near{Node: full.Node, Devices: devices, Lacking: lacking, Explanation: full, resource: resource})
	slices.SortStableFunc(all, func(a, b Near) int {
		if (a.resource == "") != (b.resource == "") {
			return cmp.Compare(len(a.resource), len(b.resource))
		}
		return cmp.Or(cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Node, b.Node))
	})
	if len(all) > nearestAtMost && all[nearestAtMost].Node == full.Node || !wouldDo() {
		return slices.DeleteFunc(all, func(near Near) bool { return near.Node == full.Node })
	}
	return all[:min(len(all), nearestAtMost)]
}

// distance returns the number of devices that must become free on a node, their description, and
// whether they can become free at all.
func distance(full *allocator.Explanation) (devices int, lacking []string, possible bool) {
	for i := range full.Claims {
		claim := &full.Claims[i]
		short, text, can := ofRequests(claim)
		more, words, also := ofConstraints(claim)
		if !can || !also {
			return 0, nil, false
		}
		// The requests lack the devices that a constraint lacks, too: do not count them twice.
		if more >= short {
			short, text = more, words
		}
		devices += short
		lacking = append(lacking, text...)
	}
	return devices, lacking, true
}

// shortage is the number of devices that requests lack.
type shortage struct {
	devices  int
	text     string
	possible bool
}

// shortageOf returns the shortage of requests that can have the same devices.
func shortageOf(alike []*allocator.ExplainedRequest) shortage {
	first, wanted := alike[0], 0
	var names []string
	for _, r := range alike {
		wanted += r.Wanted
		names = append(names, r.Request)
	}
	s := shortage{devices: max(0, wanted-first.Available), possible: couldBeFree(first) >= wanted}
	if s.devices > 0 {
		s.text = fmt.Sprintf("%s of class %s for %s", more(s.devices), first.Class, requests(names))
	}
	return s
}

// ofRequests returns the shortage of the requests of a claim. Of alternatives it takes the nearest
// one.
func ofRequests(claim *allocator.ExplainedClaim) (devices int, lacking []string, possible bool) {
	var names []string
	best := make(map[string]shortage)
	for _, group := range alike(claim) {
		s := shortageOf(group)
		name, _, _ := strings.Cut(group[0].Request, "/")
		known, seen := best[name]
		if !seen {
			names = append(names, name)
		}
		if !seen || s.possible && (!known.possible || s.devices < known.devices) {
			best[name] = s
		}
	}
	possible = true
	for _, name := range names {
		s := best[name]
		devices += s.devices
		possible = possible && s.possible
		if s.text != "" {
			lacking = append(lacking, s.text)
		}
	}
	return devices, lacking, possible
}

// alike groups requests for any devices of the same class, because they compete for the same
// devices. Alternatives, requests for all devices and requests with admin access are in groups of
// their own.
func alike(claim *allocator.ExplainedClaim) [][]*allocator.ExplainedRequest {
	var groups [][]*allocator.ExplainedRequest
	for i := range claim.Requests {
		r := &claim.Requests[i]
		at := slices.IndexFunc(groups, func(group []*allocator.ExplainedRequest) bool {
			first := group[0]
			return anyOfClass(first) && anyOfClass(r) && first.Class == r.Class && first.Available == r.Available
		})
		if at < 0 {
			groups = append(groups, nil)
			at = len(groups) - 1
		}
		groups[at] = append(groups[at], r)
	}
	return groups
}

func anyOfClass(r *allocator.ExplainedRequest) bool {
	return !r.All && !r.Admin && r.Matching == r.OfClass && !strings.Contains(r.Request, "/")
}

// couldBeFree returns how many matching devices a request could have if other claims released
// theirs.
func couldBeFree(r *allocator.ExplainedRequest) int {
	count := r.Available
	for _, obstacle := range r.Obstacles {
		if obstacle.Cause >= allocator.Held {
			count += obstacle.Devices
		}
	}
	return count
}

// ofConstraints returns the largest shortage of the constraints of a claim.
func ofConstraints(claim *allocator.ExplainedClaim) (devices int, lacking []string, possible bool) {
	for i := range claim.Constraints {
		c := &claim.Constraints[i]
		if c.Enough {
			continue
		}
		if !c.PossiblyEnough {
			return 0, nil, false
		}
		short := max(1, c.Wanted-c.Best)
		if short <= devices {
			continue
		}
		where := fmt.Sprintf("with another value of %s", c.Attribute)
		switch {
		case c.PossibleValue == "":
		case c.Best > 0 && c.Value != c.PossibleValue: // As many devices are missing for another value as for PossibleValue.
			where = fmt.Sprintf("with the same %s", c.Attribute)
		default:
			where = fmt.Sprintf("with %s = %s", c.Attribute, c.PossibleValue)
		}
		devices, lacking = short, []string{fmt.Sprintf("%s %s for %s", more(short), where, requests(c.Requests))}
	}
	return devices, lacking, true
}

func more(devices int) string {
	if devices == 1 {
		return "one more free device"
	}
	return fmt.Sprintf("%d more free devices", devices)
}

func requests(names []string) string {
	if len(names) == 1 {
		return "request " + names[0]
	}
	return "requests " + strings.Join(names, ", ")
}
