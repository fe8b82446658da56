// Package guard tests decisions of bin/guard about allocations on a real API server under bad
// conditions: clients send requests to its port that no API server sends; guards are killed, paused
// for longer than their Lease and replaced during a burst of allocations by schedulers that know
// nothing of each other; and approved allocations are never stored.
//
// GUARD_REPLACEMENTS is the number of times that guards are killed or paused in each burst (2 by
// default), and GUARD_ATTACK the duration of each kind of hostile request (1s by default).
//
// Even the part in make test takes a minute: guards are replaced in a burst, and the API server asks each one.
package guard
