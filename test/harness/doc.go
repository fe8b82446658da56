// Package harness is what tests of the scheduler against a real control plane have
// in common: it starts the control plane, schedulers as processes of their own
// under the identity and with the configuration of the manifests, and gives each
// test a Space of its own in the cluster (a namespace, nodes, a driver with
// devices, a device class).
//
// A package of such tests calls Main in its TestMain:
//
//	var cluster *harness.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(harness.Main(m, harness.Options{Name: "faults"}, func(c *harness.Cluster) { cluster = c }))
//	}
//
// and a test makes its space, starts its scheduler and says what it expects:
//
//	s := cluster.NewSpace(t, "burst", "", 4)
//	s.AddDevices(8)
//	scheduler := s.StartScheduler(harness.SchedulerOptions{})
//	s.Create(builder.Claim("one", s.Want(1)).Template())
//	s.CreatePods("pod", 32)
//	s.RunningAndWaiting(32, 0)
//	s.NothingLeaked()
//
// At the end of a test the independent checker of test/checker looks at its space,
// and at how that state came to be; at the end of all tests it looks at the whole
// cluster. A pod that would fit must not wait then, unless the test says why it may
// (Space.MayWait).
package harness
