// Package claimevents reports to users in events (events.k8s.io/v1) which devices a claim was
// allocated or has released, where, and why. It sends one event for each allocation that the API
// server has confirmed, and one for each release by this scheduler. All profiles share one rate
// limit, and the log counts events beyond it.
package claimevents
