// Package catalogue runs the scenarios of the demo as a test, with bin/scheduler as users
// run it: under the identity and with the configuration of the manifests, against a real API
// server with RBAC, real controllers and simulated nodes. What a scenario says is tested by
// it, and not by another test elsewhere.
//
// It has a cluster of its own: waiting pods of scenarios are tried again for what happens in
// others, and that costs least where nothing else is going on. Scenarios about groups of
// pods are run by test/groups, where the gates for them are on.
//
// It takes half a minute: some scenarios show what a pod waits for, and how long that takes.
package catalogue
