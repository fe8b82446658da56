// Package compat runs what every user of claims relies on against API servers of older
// Kubernetes releases, which have older versions of the claim API, with the scheduler as
// it is shipped.
//
// The environment variable QUARTERMASTER_COMPAT_RELEASE names the release, such as
// 1.32.2; "make test-compat" runs the tests for all of them. Its kube-apiserver and
// kube-controller-manager come from a module beside this file, and are built into
// bin/compat. Without the variable the tests run against 1.37, as part of "make test-all",
// which shows that they expect the same of all releases.
//
// The table in releases.md says which test runs with which release. Those that
// allocate by structured parameters are written for all versions; TestClassic is for
// controllers of drivers, which are all that 1.29 has.
package compat
