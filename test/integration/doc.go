// Package integration tests the scheduler as users run it: bin/scheduler as a
// process of its own, under the identity and with the configuration of the
// manifests, against a real API server with RBAC, real controllers and simulated
// nodes.
//
// What the demo shows is tested by test/kubectldevices, which runs it; the tests here
// are about what it does not show.
//
// All tests share one cluster. Each has a space of its own in it (see space): a
// namespace, nodes, a driver with devices, and a device class. Whatever a test
// is about, at its end the independent checker of test/checker looks at the
// space, and at the end of all of them at the whole cluster.
//
// Even the part in make test takes a minute or two: a hundred tests start schedulers of their own, and pods run.
package integration
