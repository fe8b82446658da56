// Package podclaims knows which claims a pod uses, which pods use a claim, and why a pod
// cannot be scheduled with its claims as they are. Everything is looked up in memory, but for
// whether a pod is there or bound, which only the server knows.
package podclaims
