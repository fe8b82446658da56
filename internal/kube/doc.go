// Package kube is the door to k8s.io/kubernetes, a module without a promise of compatibility: feature gates, plugins,
// metrics, and the scheduling framework of kube-scheduler under one roof. Package podutil has the helpers for pods,
// which the guard uses too, and package preemption has the evaluation of preemption. What a new release is likely to
// change is noted beside each name; docs/architecture.md lists it.
//
// Its statuses have no commas: kube-scheduler joins the reasons of nodes by commas, and a comma in users' expressions
// or names would look like the start of the next reason.
package kube
