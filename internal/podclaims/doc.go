// Package podclaims finds the claims that a pod uses, the pods that use a claim, and the reasons
// why a pod cannot be scheduled with its current claims. It looks up everything in memory, except
// whether a pod exists or is bound, which only the server knows.
package podclaims
