// Package kube offers the names of k8s.io/kubernetes, a module without a promise of compatibility, to all others: feature
// gates, names of plugins, metrics and helpers of kube-scheduler. Package podutil below it has the helpers for pods, which
// the guard needs too, and package preemption has the preemption of kube-scheduler. What a new release is likely to
// change is noted beside each name; docs/design/architecture.md lists it.
//
// Its statuses have no commas: kube-scheduler joins the reasons of nodes by commas, and a comma in users' expressions
// or names would look like the start of the next reason.
package kube
