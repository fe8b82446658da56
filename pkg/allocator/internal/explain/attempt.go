package explain

import resourceapi "k8s.io/api/resource/v1"

// attemptBudget limits, in steps, each of the few small searches that find out which claims and constraints are to blame.
const attemptBudget = 2000

// solvability is the result of a small search. unknown does not mean no.
type solvability int

const (
	unknown solvability = iota
	yes
	no
)

// attempt looks for devices for claims in the node view of the search.
func (q inquiry) attempt(claims ...*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, solvability) {
	results, found, known := q.Attempt(attemptBudget, claims...)
	switch {
	case !known:
		return nil, unknown
	case found:
		return results, yes
	}
	return nil, no
}

// ask reports whether there are devices for claims in the node view of the search.
func (q inquiry) ask(claims ...*resourceapi.ResourceClaim) solvability {
	_, answer := q.attempt(claims...)
	return answer
}
