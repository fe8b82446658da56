// Package classicdra supports claims of older API servers (Kubernetes 1.29 to 1.31), which differ from claims of v1:
//
//   - controllers of drivers may allocate them (KEP-3063, package negotiation): attempt.go, contexts.go
//   - their requests may be in other objects (v1alpha2): resolve.go
//   - their deallocation may be requested: deallocation.go
//
// A Mode and an Attempt may be nil, and are nil if the server has no such claims: then their methods change nothing.
package classicdra
