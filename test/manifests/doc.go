// Package manifests tests that an API server accepts what manifests/ installs,
// and that the identity it installs has the rights it should have and no others.
package manifests
