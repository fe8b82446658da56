// Package selector decides which devices of a pool match the CEL selectors of
// device classes and requests. Each expression is evaluated once for each version
// of a device; the verdicts are bit sets that are cached on the immutable values
// of package inventory and die with them.
package selector
