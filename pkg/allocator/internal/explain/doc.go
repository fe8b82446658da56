// Package explain finds out why a search found nothing, and says it as data and as text. It reads the search only through Facts, and the
// search does not depend on it.
//
//	Facts    the data of a search                                   (facts.go)
//	Reason   one line; Explanation: all details                     (reason.go, explanation.go)
//	single devices: the cause against each                          (inspection.go, draws.go)
//	single requests: their devices by cause, their shortage         (tally.go, shortage.go, request.go, countersets.go)
//	requests together, and constraints: devices left by them        (together.go, agreement.go, values.go, unsatisfied.go)
//	competing claims and requests, found by small searches          (combined.go, satisfied.go, attempt.go)
package explain
