// Package chart tests charts/quartermaster with Helm's own library: that it renders what the kustomizations of manifests
// render, that values have the effects described in values.yaml, and that on a real API server it can be installed, upgraded, rolled back and
// uninstalled, after which nothing is left.
//
// It is a module of its own, because Helm needs other versions of modules than the scheduler has. So that kube-apiserver is not compiled
// with these, the control plane is a process of its own: bin/playground up --no-scheduler.
package chart
