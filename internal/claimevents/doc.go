// Package claimevents tells users in events (events.k8s.io/v1) which devices a claim was allocated or has released,
// where, and why: one event for each allocation that the API server has confirmed, and one for each release by this
// scheduler. There is one limit for the events of all profiles, and what it leaves out is counted in the log.
package claimevents
