// Package guard has bin/guard decide about allocations on a real API server, and makes that hard for
// it: whoever reaches its port sends it what no API server sends, guards are killed, paused for
// longer than their Lease and replaced during a burst of allocations by schedulers that know nothing
// of each other, and what was approved is never stored.
//
// GUARD_REPLACEMENTS is how often guards are killed or paused in each burst (2 by default), and
// GUARD_ATTACK how long each kind of hostile request goes on (1s by default).
package guard
