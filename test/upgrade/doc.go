// Package upgrade tests the previous release and this one together: the scheduler and the guard of
// the commit that hack/previous-release names, which "make bin/previous/scheduler" builds from the
// history, and ours.
//
// They are two replicas between which leadership goes to and fro, two schedulers side by side on the
// same devices, two guards, and one after the other with what the first has left behind. Each test
// goes both ways, since a release can be rolled back. PREVIOUS=v1.2.3 make test-upgrade takes another
// release. In a clone that lacks the commit, the tests are skipped.
//
// The API server of all of this is that of the release of our libraries. How ours gets on with a server
// that is a minor release older or newer is in package skew.
package upgrade
