package explain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// combined returns the problem that devices, requests or claims have in combination, where counting does not find it.
func (q inquiry) combined() finding {
	sure := true // whether the claims before this one have a solution
	for i, c := range q.Asked().Claims() {
		if answer := q.ask(q.apiClaims()[:i+1]...); answer != no {
			sure = sure && answer == yes
			continue
		}
		alone := no
		if i > 0 {
			alone = q.ask(c.API)
		}
		switch alone {
		case yes:
			if found := q.drainedCounters(q.Asked().Claims()[:i+1]); sure && found.text != "" {
				return found
			}
			return finding{text: fmt.Sprintf("claim %s: there are devices for it alone but not together with those for %s",
				dra.Of(c.API), claimNames(q.Asked().Claims()[:i]))}
		case no:
			if found := q.combinedIn(c); found.text != "" {
				return found
			}
		}
	}
	return finding{text: q.names() + ": no combination of devices satisfies all requests and constraints"}
}

// combinedIn returns the reason why a claim has no solution even alone; the zero value if that would take too
// long to find out.
func (q inquiry) combinedIn(c *task.Claim) finding {
	each := yes
	for i := range c.Slots {
		cut := unconstrained(c)
		cut.Spec.Devices.Requests = cut.Spec.Devices.Requests[i : i+1]
		switch q.ask(cut) {
		case no:
			return q.limited(c, i)
		case unknown:
			each = unknown
		}
	}
	together := q.ask(unconstrained(c))
	switch {
	case together == yes && len(c.Constraints) > 0:
		return finding{
			text: fmt.Sprintf("claim %s: there are enough free devices but none that together satisfy %s",
				dra.Of(c.API), describe(c.Constraints)),
			detail: func() string { return "without constraints they could be had together" },
		}
	case together == no && each == yes:
		if found := q.drainedCounters([]*task.Claim{c}); found.text != "" {
			return found
		}
		return finding{text: fmt.Sprintf("claim %s: there are devices for each of its requests alone but not for all of them together",
			dra.Of(c.API))}
	}
	return finding{}
}

// drainedCounters reports that each claim, or each request of a single claim, has enough devices alone, but
// that their shared counters do not suffice for all. It returns the zero value if that is not the problem.
func (q inquiry) drainedCounters(claims []*task.Claim) finding {
	have := q.satisfy(claims)
	if have == nil {
		return finding{}
	}
	counters, ok := q.drainedBy(have)
	if !ok {
		return finding{}
	}
	of := "its requests"
	if len(claims) > 1 {
		of = "them"
	}
	return finding{
		text: fmt.Sprintf("%s: there are devices for each of %s alone but the counters that they share do not suffice for all (%s)",
			claimNames(claims), of, search.Join(counterNames(counters))),
		detail: func() string { return have.detail(counters) },
	}
}

// limited returns the reason why a request cannot have enough of its devices although each single one is
// available. Without constraints, devices are related only by counters and compatibility groups.
func (q inquiry) limited(c *task.Claim, index int) finding {
	counters, compatibility := q.sharedCounters(&c.Slots[index])
	text := "enough devices match and are free but too little is left of the counters that they share"
	if len(counters) > 0 && len(counters) <= search.NamedAtMost {
		text += " (" + strings.Join(counters, "; ") + ")"
	}
	if compatibility {
		text += " or their compatibility groups do not go together"
	}
	return finding{
		text: fmt.Sprintf("claim %s request %s: %s", dra.Of(c.API), c.Slots[index].Name, text),
		detail: func() string {
			only := *c
			only.Slots = c.Slots[index : index+1]
			only.API = c.API.DeepCopy()
			only.API.Spec.Devices.Requests = only.API.Spec.Devices.Requests[index : index+1]
			if have := q.satisfy([]*task.Claim{&only}); have != nil {
				if drained, ok := q.drainedBy(have); ok {
					return have.detail(drained)
				}
			}
			return ""
		},
	}
}

// unconstrained returns a copy of the claim without its constraints.
func unconstrained(c *task.Claim) *resourceapi.ResourceClaim {
	free := c.API.DeepCopy()
	free.Spec.Devices.Constraints = nil
	return free
}

func describe(constraints []resourceapi.DeviceConstraint) string {
	var parts []string
	for _, c := range constraints {
		if c.MatchAttribute != nil {
			parts = append(parts, "matchAttribute "+string(*c.MatchAttribute))
		} else {
			parts = append(parts, "distinctAttribute "+string(*c.DistinctAttribute))
		}
	}
	return strings.Join(parts, " and ")
}

func (q inquiry) apiClaims() []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, len(q.Asked().Claims()))
	for i, c := range q.Asked().Claims() {
		claims[i] = c.API
	}
	return claims
}
