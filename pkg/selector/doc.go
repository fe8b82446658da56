// Package selector decides which devices of a pool match the CEL selectors of
// device classes and requests, and which attributes requests derive from them. Each expression is evaluated once for each content of
// a slice (inventory.Content); the verdicts are bit sets that are remembered (package
// recall) as long as there is room.
//
// What users may write can take long: an expression at the API's cost limit takes 0.4 s
// for one device. Compiling it, and functions such as matches() on long texts, cannot
// be interrupted. Whoever must not be held up gives a Budget with the context.
package selector
