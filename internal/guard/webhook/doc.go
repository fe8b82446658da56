// Package webhook serves the guard to API servers: AdmissionReviews (admission.k8s.io/v1) over HTTP about updates of
// resourceclaims/status.
//
// Any client that reaches the port can send requests. None can use more memory than a claim needs, or delay the
// others for longer than a claim takes: see limits.go.
package webhook
