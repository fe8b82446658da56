// Package harness holds the common parts of tests of the scheduler against a real
// control plane. It starts the control plane and schedulers: separate processes with
// the identity and the configuration of the manifests. It gives each test a Space of
// its own in the cluster (a namespace, nodes, a driver with devices, a device class).
//
// A package of such tests calls Main in its TestMain:
//
//	var cluster *harness.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(harness.Main(m, harness.Options{Name: "faults"}, func(c *harness.Cluster) { cluster = c }))
//	}
//
// and a test makes its space, starts its scheduler and states its expectations:
//
//	s := cluster.NewSpace(t, "burst", "", 4)
//	s.AddDevices(8)
//	scheduler := s.StartScheduler(harness.SchedulerOptions{})
//	s.Create(builder.Claim("one", s.Want(1)).Template())
//	s.CreatePods("pod", 32)
//	s.RunningAndWaiting(32, 0)
//	s.NothingLeaked()
//
// At the end of a test, the independent checker of test/checker checks its space and
// the history of its state. At the end of all tests, it checks the whole cluster. A pod
// that would fit must not wait then, unless the test gives a reason (Space.MayWait).
package harness
