// Package certs provides TLS certificates for the guard's webhook: a certificate authority, which all guards of a
// cluster share in a Secret, and for each process a certificate from it, which is never stored. Both are renewed long
// before they expire.
package certs
