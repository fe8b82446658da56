// Package finalizers tests manifests/finalizer-at-creation on a real API server: the scheduler needs one request less for each
// claim, and claims go as they should, whether they were allocated or not. It has a control plane of its own, because the
// policy concerns all claims of a cluster.
package finalizers
