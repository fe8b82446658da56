// Package webhook serves the guard to API servers: AdmissionReviews (admission.k8s.io/v1) over HTTP about updates of
// resourceclaims/status.
//
// Any client that reaches the port can send requests. None can use more memory than a claim needs, or delay the
// others for longer than a claim takes: see limits.go.
//
// # Certificates
//
// authority issues the certificates for TLS: all guards of a cluster share one certificate authority in a Secret, and each process
// gets a certificate from it, which is never stored. Both are renewed long before they end.
package webhook
