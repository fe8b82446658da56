package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestBindingWaitsForConditions: the whole story of a device that gets ready.
func TestBindingWaitsForConditions(t *testing.T) {
	t.Parallel()
	inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
		p := f.scheduleMeanwhile(f.pod("p"))
		p.stillWaits("nobody has reported anything")
		claim := f.claim("c")
		result := claim.Status.Allocation.Devices.Results[0]
		require.Equal(t, []string{attached}, result.BindingConditions)
		require.Equal(t, []string{broken}, result.BindingFailureConditions)
		require.NotNil(t, claim.Status.Allocation.AllocationTimestamp)
		require.Equal(t, []string{"p"}, consumerNames(claim), "nobody else can deallocate it")
		require.Zero(t, f.pl.state.Ledger.InFlightCount(), "it is written")
		require.Equal(t, []string{"gpu-0"}, f.inUse("n1"))
		require.Equal(t, []string{
			"Normal DevicesAllocated Allocated gpu.example.com/n1/gpu-0 on node n1 for pod p",
			"Normal BindingConditionsPending devices on node n1 are not ready: device gpu.example.com/n1/gpu-0 lacks attached",
		}, f.events())

		f.changeClaim("c", report("unrelated"))
		p.stillWaits("another condition is true")
		time.Sleep(time.Minute)
		f.changeClaim("c", report(attached))
		require.Empty(t, p.result().phase)
		require.Empty(t, f.events(), "it was announced once")
		require.True(t, f.pl.devices.Changed.Idle(), "nobody watches any more")
		require.Len(t, f.claim("c").Status.Devices, 1, "what the driver has reported is still there")
	})
}

// TestBindingDoesNotWait: there is nothing to wait for.
func TestBindingDoesNotWait(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		off   bool
	}{
		"ready already":                    {claim: attachable(time.Second, report(attached))},
		"ready after the timeout":          {claim: attachable(time.Hour, report(attached))},
		"gate off":                         {claim: attachable(time.Second), off: true},
		"gate off, too late":               {claim: attachable(time.Hour), off: true},
		"gate off, failed":                 {claim: attachable(time.Hour, report(broken)), off: true},
		"no conditions, but a device says": {claim: with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"), report(broken))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(fabricNodes("n1"), test.claim, newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				f.pl.bindingConditions = !test.off
				p := f.scheduleMeanwhile(f.pod("p"))
				time.Sleep(time.Minute) // Another scheduler has allocated the claim, so it settles.
				require.Empty(t, p.result().phase)
				require.Empty(t, f.events())
			})
		})
	}
}

// TestBindingEnds: a wait that fails. The pod's devices are freed, unless other pods use them, and the pod can be tried
// again.
func TestBindingEnds(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute // the default
	others := func(f *fixture) { f.changeClaim("c", reservedFor("other")) }
	tests := map[string]struct {
		do    func(f *fixture)
		after time.Duration // of sleep
		is    error
		text  string
		// left are the devices that the claim has in the end.
		left []string
	}{
		"failure": {
			do: func(f *fixture) { f.changeClaim("c", report(broken)) }, is: binding.ErrFailed,
			text: "device binding failed: claim default/c: the driver says of device gpu.example.com/n1/gpu-0 that broken is true: said the driver (Tested)",
		},
		"timeout": {
			after: timeout, is: binding.ErrTimeout,
			text: "device binding timeout: claim default/c: device gpu.example.com/n1/gpu-0 lacks attached within 10m0s (bindingTimeout)",
		},
		"failure, claim shared": {
			do: func(f *fixture) { others(f); f.changeClaim("c", report(broken)) }, is: binding.ErrFailed, left: []string{"n1/gpu-0"},
		},
		"timeout, claim shared": {do: others, after: timeout, is: binding.ErrTimeout, left: []string{"n1/gpu-0"}},
		"deallocated":           {do: func(f *fixture) { f.changeClaim("c", deallocate) }, text: "its allocation was removed"},
		"allocated anew": {
			do: func(f *fixture) {
				f.changeClaim("c", func(c *resourceapi.ResourceClaim) { deallocate(c); allocate("n2", "gpu-7")(c) })
			}, text: "its allocation was removed", left: []string{"n2/gpu-7"},
		},
		"reservation taken away": {
			do: func(f *fixture) {
				f.changeClaim("c", func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil })
			},
			text: "it is not reserved for the pod any more",
		},
		"pod deleted": {do: func(f *fixture) { f.remove(f.pod("p")) }, text: "pod default/p was deleted"},
		"pod being deleted": {
			do: func(f *fixture) {
				pod := f.pod("p")
				pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				f.replace(pod)
			},
			text: "pod default/p was deleted",
		},
		"pod replaced": {
			do: func(f *fixture) {
				pod := f.pod("p")
				pod.UID = "another"
				f.replace(pod)
			},
			text: "pod default/p was deleted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
				p := f.scheduleMeanwhile(f.pod("p"))
				p.stillWaits("not attached")
				if test.do != nil {
					test.do(f)
				}
				time.Sleep(test.after)
				result := p.result()
				require.Equal(t, "PreBind", result.phase)
				require.Equal(t, fwk.Error, result.status.Code(), "to be tried again without an event")
				require.Contains(t, result.text(), test.text)
				if test.is != nil {
					require.ErrorIs(t, result.status.AsError(), test.is)
				}
				require.Equal(t, test.left, deviceNames(f.claim("c")))
				require.NotContains(t, consumerNames(f.claim("c")), "p")
				if test.left == nil {
					require.Empty(t, f.claim("c").Status.Devices, "it was about the allocation that is gone")
				}
				require.False(t, f.pl.commits.IsReleasing("uid-pod-p"))
				require.True(t, f.pl.devices.Changed.Idle(), "nobody watches any more")
			})
		})
	}
}

func TestBindingEndsWithTheClaim(t *testing.T) {
	t.Parallel()
	for name, successor := range map[string]*resourceapi.ResourceClaim{
		"deleted":  nil,
		"replaced": with(gpus("c", 1).Obj(), func(claim *resourceapi.ResourceClaim) { claim.UID = "another" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
				p := f.scheduleMeanwhile(f.pod("p"))
				f.remove(gpus("c", 1).Obj())
				if successor != nil {
					f.create(successor)
				}
				time.Sleep(2 * binding.UnlistedInterval)
				result := p.result()
				require.Equal(t, "PreBind", result.phase)
				require.Contains(t, result.text(), "it was deleted")
				require.Empty(t, f.inUse("n1"))
			})
		})
	}
}

// TestBindingTriesAgain: the next attempt starts without the previous allocation, and prefers a device that needs no
// preparation.
func TestBindingTriesAgain(t *testing.T) {
	t.Parallel()
	inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
		p := f.scheduleMeanwhile(f.pod("p"))
		f.changeClaim("c", report(broken))
		require.Equal(t, "PreBind", p.result().phase)

		p = f.scheduleMeanwhile(f.pod("p"))
		p.stillWaits("the same device, as there is no other")
		time.Sleep(9 * time.Minute)
		p.stillWaits("the time counts from this allocation")
		f.create(builder.Node("n2"))
		f.create(builder.NodeSlice("n2", builder.Device("gpu-1")).Obj())
		f.changeClaim("c", report(broken))
		require.Equal(t, "PreBind", p.result().phase)
		f.remove(builder.NodeSlice("n1").Obj())
		f.settle()
		require.Empty(t, f.scheduleMeanwhile(f.pod("p")).result().phase)
		require.Equal(t, []string{"n2/gpu-1"}, deviceNames(f.claim("c")))
	})
}

// TestBindingOfSharedClaim: pods that share a claim wait together, and the last one
// that gives up clears it.
func TestBindingOfSharedClaim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ report, phase string }{
		"ready": {report: attached}, "failure": {report: broken, phase: "PreBind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fabricWorld("p", "q"), func(t *testing.T, f *fixture) {
				p := f.scheduleMeanwhile(f.pod("p"))
				q := f.scheduleMeanwhile(f.pod("q"))
				p.stillWaits("not attached")
				q.stillWaits("not attached")
				require.Equal(t, []string{"p", "q"}, consumerNames(f.claim("c")))
				f.changeClaim("c", report(test.report))
				require.Equal(t, test.phase, p.result().phase)
				require.Equal(t, test.phase, q.result().phase)
				require.Equal(t, test.phase == "", len(f.claim("c").Status.ReservedFor) == 2)
				require.Equal(t, test.phase == "", f.claim("c").Status.Allocation != nil)
			})
		})
	}
}

// TestBindingWaitsForWhatIsLeft: the timeout began with the allocation, whichever process made it.
func TestBindingWaitsForWhatIsLeft(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute
	unknown := func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation.AllocationTimestamp = nil }
	tests := map[string]struct {
		ago   time.Duration
		edits []func(*resourceapi.ResourceClaim)
		want  time.Duration
	}{
		"reserved by another process": {ago: 4 * time.Minute, edits: []func(*resourceapi.ResourceClaim){reservedFor("p")}, want: 6 * time.Minute},
		"for another pod":             {ago: 4 * time.Minute, edits: []func(*resourceapi.ResourceClaim){reservedFor("other")}, want: 6 * time.Minute},
		"time unknown":                {edits: []func(*resourceapi.ResourceClaim){unknown}, want: timeout},
		"by a clock that is ahead":    {ago: -time.Hour, want: timeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(fabricNodes("n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				f.create(attachable(test.ago, test.edits...)) // The bubble has its own time.
				f.settle()
				p := f.scheduleMeanwhile(f.pod("p"))
				time.Sleep(test.want - time.Second)
				p.stillWaits("it is not late yet")
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, p.result().status.AsError(), binding.ErrTimeout)
				require.NotContains(t, consumerNames(f.claim("c")), "p")
			})
		})
	}
}

// TestBindingOutlivesTheScheduler: a scheduler that ends leaves a driver's preparations to the next one.
func TestBindingOutlivesTheScheduler(t *testing.T) {
	t.Parallel()
	inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
		p := f.scheduleMeanwhile(f.pod("p"))
		f.stop()
		require.Equal(t, "PreBind", p.result().phase)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
		allocation := f.claim("c").Status.Allocation

		again := f.restart()
		p = again.scheduleMeanwhile(again.pod("p"))
		p.stillWaits("not attached")
		again.changeClaim("c", report(attached))
		require.Empty(t, p.result().phase)
		require.Equal(t, allocation, again.claim("c").Status.Allocation)
	})
}

// TestBindingIsPreempted: the pod was chosen as a victim while it waited.
func TestBindingIsPreempted(t *testing.T) {
	t.Parallel()
	inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
		a := f.mustBegin(f.pod("p")).filter()
		require.NoError(t, a.reserve("n1").AsError())
		ctx, cancel := f.cancellable()
		time.AfterFunc(time.Minute, func() { cancel(errLost) })
		status := f.pl.PreBind(ctx, a.state, a.pod, "n1")
		require.ErrorIs(t, status.AsError(), errLost)
		f.forget()
		a.unreserve("n1")
		require.True(t, f.pl.commits.IsReleasing("uid-pod-p"), "the scheduler can forget the pod at once")
		f.settle()
		require.False(t, f.pl.commits.IsReleasing("uid-pod-p"))
		require.Nil(t, f.claim("c").Status.Allocation, "the devices are for whoever comes first")
		time.Sleep(time.Second) // By then it is in the queue.
		require.Contains(t, f.activator.names(), "default/p", "it can be tried again now")
	})
}

// TestBindingYields: a non-participating scheduler has allocated the same device while the pod waited.
func TestBindingYields(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricWorld("p"), gpus("conflicting", 1).Obj()), func(t *testing.T, f *fixture) {
		p := f.scheduleMeanwhile(f.pod("p"))
		f.changeClaim("conflicting", allocate("n1", "gpu-0"))
		f.settle()
		f.changeClaim("c", report(attached))
		result := p.result()
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), commit.ErrConflict)
		require.Nil(t, f.claim("c").Status.Allocation)
	})
}

// TestNoWaitWhileOthersAreUndecided: the device of n1 has to be attached first, that of n2 is ready. While a selector takes long on the
// device of n2, the pod does not get that of n1, for which it would wait minutes.
func TestNoWaitWhileOthersAreUndecided(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes(), choosers()...), func(t *testing.T, f *fixture) {
		f.create(builder.Node("n1"))
		f.create(builder.NodeSlice("n1", builder.Device("gpu-0").Attr("index", 0).BindingCondition(attached)).Obj())
		f.create(builder.Node("n2"))
		f.create(builder.NodeSlice("n2", builder.Device("gpu-0").Attr("index", 1)).Obj())
		f.settle()
		f.evaluateOn("n1")
		f.pl.attemptBudget = 0
		a := f.mustBegin(f.pod("p"))
		require.Equal(t, []string{"n1"}, a.filter().feasible)
		require.Equal(t, takesLong, a.reasons["n2"])
		status := a.reserve("n1")
		require.Equal(t, fwk.Error, status.Code())
		require.Contains(t, status.Message(), "it is not known yet whether other nodes have ready devices")
		a.unreserve("n1")
		f.settle()
		require.Empty(t, deviceNames(f.claim("c")))
		a = f.mustBegin(f.pod("p")).filter()
		require.Equal(t, []string{"n1", "n2"}, a.feasible)
		require.Equal(t, "n2", a.best())
	})
}
