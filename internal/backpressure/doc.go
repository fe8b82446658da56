// Package backpressure keeps pods in the scheduling queue while the API server has enough to do with the pods before
// them. Places for pods are found in a fraction of the time that their writes take. If thousands come at once, all of
// them would be in binding together: each waits for the server's answers for as long as the whole burst takes, and what
// arrives meanwhile, of whatever priority, comes last. In the queue they can be overtaken.
//
// A wait must never cost more than that is worth. It is short for each pod, so that the scheduler goes on at some pace
// whatever happens; it ends altogether when nothing was written for a while; and it takes place only if more writes at
// a time make each of them slower, and not if they are slow anyway.
package backpressure
