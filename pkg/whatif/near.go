package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Near is a node and what it lacks: so many devices would have to become free there. It is the least that would
// have to change as far as each request and each constraint is concerned by itself.
type Near struct {
	Node    string `json:"node"`
	Devices int    `json:"devices"`
	// Lacking says which devices, in words, and what else is too little there.
	Lacking []string `json:"lacking"`
	// Explanation is that of the node in full.
	Explanation *allocator.Explanation `json:"-"`

	// resource is of what else there is too little, "" if devices would do.
	resource v1.ResourceName
}

// addNear keeps the nearest nodes. Those where nothing that may become free would do are not near, and those that lack
// a resource as well less so than others.
func addNear(all []Near, full *allocator.Explanation, resource v1.ResourceName) []Near {
	devices, lacking, possible := distance(full)
	if !possible || devices == 0 {
		return all
	}
	if resource != "" {
		lacking = append(lacking, fmt.Sprintf("more %s", resource))
	}
	all = append(all, Near{Node: full.Node, Devices: devices, Lacking: lacking, Explanation: full, resource: resource})
	slices.SortStableFunc(all, func(a, b Near) int {
		if (a.resource == "") != (b.resource == "") {
			return cmp.Compare(len(a.resource), len(b.resource))
		}
		return cmp.Or(cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Node, b.Node))
	})
	return all[:min(len(all), nearestAtMost)]
}

// distance is how many devices more have to be free on a node, which ones, and whether that is possible at all.
func distance(full *allocator.Explanation) (devices int, lacking []string, possible bool) {
	for i := range full.Claims {
		claim := &full.Claims[i]
		short, text, can := ofRequests(claim)
		more, words, also := ofConstraints(claim)
		if !can || !also {
			return 0, nil, false
		}
		// What a constraint lacks is lacked by its requests too: it does not count twice.
		if more >= short {
			short, text = more, words
		}
		devices += short
		lacking = append(lacking, text...)
	}
	return devices, lacking, true
}

// ofRequests is what the requests of a claim lack. Of alternatives the nearest one counts.
func ofRequests(claim *allocator.ExplainedClaim) (devices int, lacking []string, possible bool) {
	type shortage struct {
		devices  int
		text     string
		possible bool
	}
	var names []string
	best := make(map[string]shortage)
	for i := range claim.Requests {
		r := &claim.Requests[i]
		s := shortage{devices: max(0, r.Wanted-r.Available), possible: couldBeFree(r) >= r.Wanted}
		if s.devices > 0 {
			s.text = fmt.Sprintf("%s of class %s for request %s", more(s.devices), r.Class, r.Request)
		}
		name, _, _ := strings.Cut(r.Request, "/")
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

// couldBeFree is how many matching devices a request could have if other claims released theirs.
func couldBeFree(r *allocator.ExplainedRequest) int {
	count := r.Available
	for _, obstacle := range r.Obstacles {
		if obstacle.Cause >= allocator.Held {
			count += obstacle.Devices
		}
	}
	return count
}

// ofConstraints is what the constraint of a claim lacks that lacks most.
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
		if c.PossibleValue != "" {
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
