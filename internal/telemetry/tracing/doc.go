// Package tracing makes OpenTelemetry spans at almost no cost while tracing is off: it only starts a span below another
// one that is being recorded.
//
// It wraps a plugin with spans: one for each attempt to schedule a pod that needs devices, and below it
// one for each extension point. Filter and Score, which are called for each node, have one span for all nodes.
//
// Without tracing, the plugin is not wrapped, at no cost. With tracing, attempts that are not sampled cost one lookup
// in the CycleState at each call.
package tracing
