// Package karpenter runs the scheduler beside the real Karpenter, in the version that tools/karpenter pins, on a real API server.
package karpenter
