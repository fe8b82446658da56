// Package registration registers the guard's webhook with API servers: it has the shipped
// ValidatingWebhookConfiguration
// "quartermaster-guard", keeps the one in the cluster up to date, and checks it for others.
package registration
