// Package webhook serves the guard to API servers: AdmissionReviews (admission.k8s.io/v1) over HTTP about updates of
// resourceclaims/status.
//
// Any client that reaches the port can send requests. None can use more memory than a claim needs, or delay the
// others for longer than a claim takes: see limits.go.
//
// # Certificates
//
// Authority makes what the webhook needs for TLS: a certificate authority, which all guards of a cluster share in a Secret, and
// for each process a certificate by it, which is never stored. Both are renewed long before they end.
package webhook
