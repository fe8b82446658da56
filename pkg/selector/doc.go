// Package selector decides which devices of a pool match the CEL selectors of
// device classes and requests. Each expression is evaluated once for each content of
// a slice (inventory.Content); the verdicts are bit sets that are cached there and die
// with it.
package selector
