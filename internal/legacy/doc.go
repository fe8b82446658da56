// Package legacy is what a scheduler does because of claims of older servers (Kubernetes 1.29
// to 1.31), which are not all there is to claims of v1:
//
//   - controllers of drivers may allocate them (KEP-3063, package classic): attempt.go, contexts.go
//   - they may not say themselves what they ask for (v1alpha2): resolve.go
//   - their deallocation may be requested: deallocation.go
//
// A Mode and an Attempt may be nil, and are where there is nothing of that kind: then they
// leave everything as it is.
package legacy
