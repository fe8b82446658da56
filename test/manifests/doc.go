// Package manifests tests that an API server accepts what manifests/ installs,
// and that the identity it installs has the rights it should have and no others.
//
// It takes half a minute: a server installs, changes and removes each overlay.
package manifests
