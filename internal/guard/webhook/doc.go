// Package webhook is how API servers ask the guard: AdmissionReviews (admission.k8s.io/v1) over
// HTTP, about updates of resourceclaims/status.
//
// Requests may come from anybody who reaches the port. None takes more memory than a claim can,
// or more time than a claim needs, from the others: see limits.go.
package webhook
