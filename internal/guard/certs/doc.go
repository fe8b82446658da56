// Package certs makes what the guard's webhook needs for TLS: a certificate authority of its own,
// which all guards of a cluster share in a Secret, and for each process a certificate by it, which
// is never stored. Both are renewed long before they end.
package certs
