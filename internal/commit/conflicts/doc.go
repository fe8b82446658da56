// Package conflicts reports conflicts that no scheduler resolves: claims that hold the same device, or together
// more of a counter or capacity than there is. It writes events for the claims and for the pods that use them, and
// metrics. If configured, it also evicts pods.
//
// The package does not know how claims yield.
package conflicts
