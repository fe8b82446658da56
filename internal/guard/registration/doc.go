// Package registration has the API server ask the guard: it knows the
// ValidatingWebhookConfiguration "quartermaster-guard" as it is shipped, keeps it up to date, and
// tells others whether it is as it should be.
package registration
