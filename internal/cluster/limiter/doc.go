// Package limiter keeps pods in the scheduling queue while the API server is busy with the pods before them. The
// scheduler finds a place for a pod in a fraction of the time that the pod's writes take. If thousands of pods come at
// once, all of them would be in binding together: each waits for the server's answers for as long as the whole burst
// takes, and pods that arrive meanwhile, of whatever priority, come last. In the queue, pods of higher priority can
// overtake them.
//
// A wait must never cost more than it gains. It is short for each pod, so that the scheduler always makes progress; it
// ends altogether when nothing was written for a while; and it happens only if more concurrent writes make each of them
// slower, not if they are slow anyway.
package limiter
