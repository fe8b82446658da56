// Package descheduler runs the scheduler beside the real descheduler, in the version that tools/descheduler pins, on a real API server.
package descheduler
