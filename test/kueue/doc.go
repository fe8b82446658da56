// Package kueue runs the scheduler beside the real Kueue, in the version that tools/kueue pins, on a real API server.
package kueue
