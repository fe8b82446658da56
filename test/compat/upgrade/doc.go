// Package upgrade checks that a scheduler goes on when the cluster is upgraded underneath
// from release to release: from a server without any claim API over v1alpha2, v1alpha3,
// v1beta1 and v1beta2 to v1. "make test-compat" names the releases, oldest first, in
// QUARTERMASTER_COMPAT_UPGRADE; 1.37 comes last.
//
// And back, by one release at a time: the newer control plane has claims in use when the older one
// replaces it on the same etcd.
package upgrade
