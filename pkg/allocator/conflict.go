package allocator

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
)

// explainBudget bounds each of the few small searches that tell which claims and
// constraints are to blame.
const explainBudget = 2000

// conflict says what is wrong if counting does not tell.
func (s *search) conflict() finding {
	for i, c := range s.claims {
		if s.ask(s.apiClaims()[:i+1]...) != no {
			continue
		}
		alone := no
		if i > 0 {
			alone = s.ask(c.api)
		}
		switch alone {
		case yes:
			return finding{text: fmt.Sprintf("claim %s: there are devices for it alone, but not together with those for %s",
				klog.KObj(c.api), claimNames(s.claims[:i]))}
		case no:
			if reason := s.conflictIn(c); reason != "" {
				return finding{text: reason}
			}
		}
	}
	return finding{text: s.names() + ": no combination of devices satisfies all requests and constraints"}
}

// conflictIn says why there is no solution for a claim even if it is alone, "" if that
// would take too long to find out.
func (s *search) conflictIn(c *claim) string {
	each := yes
	for i := range c.slots {
		cut := unconstrained(c)
		cut.Spec.Devices.Requests = cut.Spec.Devices.Requests[i : i+1]
		switch s.ask(cut) {
		case no:
			return fmt.Sprintf("claim %s, request %s: %s", klog.KObj(c.api), c.slots[i].name, s.limited(&c.slots[i]))
		case unknown:
			each = unknown
		}
	}
	together := s.ask(unconstrained(c))
	switch {
	case together == yes && len(c.constraints) > 0:
		return fmt.Sprintf("claim %s: there are enough free devices, but none that together satisfy %s",
			klog.KObj(c.api), describe(c.constraints))
	case together == no && each == yes:
		return fmt.Sprintf("claim %s: there are devices for each of its requests alone, but not for all of them together", klog.KObj(c.api))
	}
	return ""
}

// limited says what keeps a request from enough of its devices, each of which it could
// have: without constraints, counters and compatibility groups are all that devices
// have in common.
func (s *search) limited(slot *slot) string {
	counters, groups := s.sharedCounters(slot)
	text := "enough devices match and are free, but too little is left of the counters that they share"
	if len(counters) > 0 && len(counters) <= namedAtMost {
		text += " (" + strings.Join(counters, ", ") + ")"
	}
	if groups {
		text += ", or their compatibility groups do not go together"
	}
	return text
}

// unconstrained returns a copy of the claim without its constraints.
func unconstrained(c *claim) *resourceapi.ResourceClaim {
	free := c.api.DeepCopy()
	free.Spec.Devices.Constraints = nil
	return free
}

func describe(constraints []resourceapi.DeviceConstraint) string {
	var words []string
	for _, c := range constraints {
		if c.MatchAttribute != nil {
			words = append(words, "matchAttribute "+string(*c.MatchAttribute))
		} else {
			words = append(words, "distinctAttribute "+string(*c.DistinctAttribute))
		}
	}
	return strings.Join(words, " and ")
}

func (s *search) apiClaims() []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, len(s.claims))
	for i, c := range s.claims {
		claims[i] = c.api
	}
	return claims
}

// solvability is the answer of a small search. "Do not know" is not "no".
type solvability int

const (
	unknown solvability = iota
	yes
	no
)

// ask finds out whether there are devices for claims on the site of the search.
// It does not depend on the search's context, which may have ended by now.
func (s *search) ask(claims ...*resourceapi.ResourceClaim) solvability {
	small := *s.solver
	small.StepBudget = explainBudget
	outcome, err := small.Prepare(claims).Solve(context.WithoutCancel(s.ctx), s.site)
	switch {
	case err != nil, outcome.GaveUp:
		return unknown
	case outcome.Fits():
		return yes
	}
	return no
}
