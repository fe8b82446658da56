// Package explain finds out why a search found nothing. It knows of the search only what Facts
// has, and the search knows nothing of it.
//
//	Facts    what there is to know of a search                      (facts.go)
//	Reason   one line, and Explanation all there is to say          (reason.go, explanation.go)
//	one device at a time, what keeps a request from it              (inspection.go, draws.go)
//	one request alone: its devices by cause, what it lacks          (tally.go, shortage.go, request.go, countersets.go)
//	requests together, and constraints: how many devices they leave (together.go, agreement.go, values.go, unsatisfied.go)
//	claims and requests that compete, found by small searches       (combined.go, satisfied.go, attempt.go)
package explain
