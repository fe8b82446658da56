package quartermaster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestBrokenAllocation: an allocated device does not get ready. The claim is deallocated if no other pod uses it, and
// the next attempt allocates it again.
func TestBrokenAllocation(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute // the default
	tests := map[string]struct {
		ago    time.Duration
		edits  []func(*resourceapi.ResourceClaim)
		reason string // why the node does not do, "" if it does
		freed  bool
	}{
		"waitable":                   {ago: timeout - time.Minute},
		"too late":                   {ago: timeout + time.Minute, reason: "device binding timeout: claim default/c: device gpu.example.com/n1/gpu-0 lacks attached within 10m0s", freed: true},
		"failed":                     {ago: time.Minute, edits: edits(report(broken)), reason: "device binding failed: claim default/c", freed: true},
		"late, then ready":           {ago: time.Hour, edits: edits(report(attached))},
		"too late, for the pod":      {ago: time.Hour, edits: edits(reservedFor("p")), reason: "device binding timeout", freed: true},
		"too late, others use it":    {ago: time.Hour, edits: edits(reservedFor("other")), reason: "device binding timeout"},
		"failed, others use it, too": {ago: time.Hour, edits: edits(report(broken), reservedFor("p", "other")), reason: "device binding failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(fabricNodes("n1", "n2"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
				f.create(attachable(test.ago, test.edits...))
				f.settle()
				a := f.mustBegin(f.pod("p")).filter()
				if test.reason == "" {
					require.Equal(t, []string{"n1"}, a.feasible)
					return
				}
				require.Empty(t, a.feasible)
				require.Contains(t, a.reasons["n1"], test.reason)
				require.Equal(t, a.reasons["n1"], a.reasons["n2"], "the same for all nodes")
				_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
				require.Equal(t, test.freed, status.IsSuccess(), "%v", status)
				f.settle()
				require.Equal(t, test.freed, f.claim("c").Status.Allocation == nil)
				if test.freed {
					require.Contains(t, status.Message(), test.reason)
					require.Empty(t, f.claim("c").Status.Devices)
					require.Contains(t, f.activator.names(), "default/p", "its update wakes the pod")
				}
			})
		})
	}
}

// TestClaimOfBoundPodStays: the response to a binding was lost, and the pod is tried again before its informer knows
// the binding. Its claim stays allocated, although no node suits the claim any more.
func TestClaimOfBoundPodStays(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes("n1", "n2"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.create(attachable(time.Hour, reservedFor("p")))
		f.settle()
		pod := f.pod("p")
		a := f.mustBegin(pod).filter()
		require.Empty(t, a.feasible)
		f.replace(boundTo(pod, "n1"))
		_, status := f.pl.PostFilter(f.ctx, a.state, pod, nil)
		require.Equal(t, "the pod has been bound by an earlier attempt", status.Message())
		f.settle()
		require.NotNil(t, f.claim("c").Status.Allocation)
	})
}

// TestNoFailedDeviceWhileOthersAreUndecided: the device of n1 has failed for the pod. While a selector takes long on the device of n2,
// the pod does not get that of n1 again.
func TestNoFailedDeviceWhileOthersAreUndecided(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes(), choosers()...), func(t *testing.T, f *fixture) {
		publish := func(name string, index int) {
			f.create(builder.Node(name))
			f.create(builder.NodeSlice(name, builder.Device("gpu-0").Attr("index", index).BindingCondition(attached).Modify(func(device *resourceapi.Device) {
				device.BindingFailureConditions = []string{broken}
			})).Obj())
			f.settle()
		}
		publish("n1", 0)
		publish("n2", 1)
		f.evaluateOn("n1")
		failing := f.claim("c").DeepCopy()
		failing.Status.Allocation = attachable(time.Minute).Status.Allocation
		report(broken)(failing)
		f.pl.failures.Note(f.pod("p").UID, failing)
		f.pl.attemptBudget = 0
		a := f.mustBegin(f.pod("p"))
		c, err := cycleOf(a.state)
		require.NoError(t, err)
		require.False(t, c.accepts("n1"), "PreFilter does not choose it")
		require.True(t, c.accepts("n2"))
		require.Equal(t, []string{"n1"}, a.filter().feasible)
		require.Equal(t, takesLong, a.reasons["n2"])
		status := a.reserve("n1")
		require.Equal(t, fwk.Error, status.Code())
		require.Contains(t, status.Message(), "it is not known yet whether other nodes have devices")
		a.unreserve("n1")
		f.settle()
		require.Empty(t, deviceNames(f.claim("c")))
		a = f.mustBegin(f.pod("p")).filter()
		require.Equal(t, []string{"n1", "n2"}, a.feasible)
		require.Equal(t, "n2", a.best())
	})
}

// choosers returns pods p and q and their claims c and other, with the same expression.
func choosers() []runtime.Object {
	selects := func(name string) runtime.Object {
		return builder.Claim(name, builder.Request("gpu", "gpu").Where(`device.attributes["gpu.example.com"].index >= 0`)).Obj()
	}
	return []runtime.Object{newPod("p", uses("c")), newPod("q", uses("other")), selects("c"), selects("other")}
}

// evaluateOn evaluates the expression of the choosers on one node, in Filter, which is the first one to ask.
func (f *fixture) evaluateOn(node string) {
	f.pl.state.NodeCache.AtOnce = 0
	a := f.mustBegin(f.pod("q"))
	for _, info := range f.nodeInfos() {
		if info.Node().Name == node {
			require.True(f.t, f.pl.Filter(f.ctx, a.state, a.pod, info).IsSuccess())
		}
	}
}

func edits(list ...func(*resourceapi.ResourceClaim)) []func(*resourceapi.ResourceClaim) { return list }

// TestBrokenAllocationIsLetGo: a pod that waits until other pods leave a broken claim is woken when they do.
func TestBrokenAllocationIsLetGo(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(fabricNodes("n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.create(attachable(time.Hour, reservedFor("other")))
		f.settle()
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.changeClaim("c", func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })
		f.settle()
		require.Contains(t, f.activator.names(), "default/p")
		require.Equal(t, "Filter", f.schedule(f.pod("p")).phase)
		f.settle()
		require.Nil(t, f.claim("c").Status.Allocation)
	})
}

// The scheduler sets up its metrics before it creates plugins.
func init() { schedmetrics.Register() }

const attached, broken = "attached", "broken"

// fabricNodes returns class gpu and nodes with one device each, gpu-0, that must be attached first.
func fabricNodes(names ...string) []runtime.Object {
	objects := []runtime.Object{builder.Class("gpu")}
	for _, name := range names {
		device := builder.Device("gpu-0").BindingCondition(attached).Modify(func(device *resourceapi.Device) {
			device.BindingFailureConditions = []string{broken}
		})
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, device).Obj())
	}
	return objects
}

// fabricWorld returns one such node, and pods that share claim c.
func fabricWorld(pods ...string) []runtime.Object {
	objects := plus(fabricNodes("n1"), gpus("c", 1).Obj())
	for _, pod := range pods {
		objects = append(objects, newPod(pod, uses("c")))
	}
	return objects
}

// attachable returns claim c, allocated some time ago, whose device is not attached yet.
func attachable(ago time.Duration, edits ...func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	claim := with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"), func(claim *resourceapi.ResourceClaim) {
		allocated := metav1.NewTime(time.Now().Add(-ago))
		claim.Status.Allocation.AllocationTimestamp = &allocated
		result := &claim.Status.Allocation.Devices.Results[0]
		result.BindingConditions, result.BindingFailureConditions = []string{attached}, []string{broken}
	})
	return with(claim, edits...)
}

// report is the driver's report about all devices of a claim: a condition is true.
func report(condition string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.Devices = nil
		for _, result := range claim.Status.Allocation.Devices.Results {
			claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device,
				Conditions: []metav1.Condition{{
					Type: condition, Status: metav1.ConditionTrue, Reason: "Tested", Message: "said the driver",
				}},
			})
		}
	}
}

// pending is an attempt in progress while the test does other things.
type pending struct {
	f    *fixture
	done chan outcome
}

// scheduleMeanwhile starts to schedule a pod, and returns once the attempt waits.
func (f *fixture) scheduleMeanwhile(pod *v1.Pod) *pending {
	p := &pending{f: f, done: make(chan outcome, 1)}
	go func() { p.done <- f.schedule(pod) }()
	f.settle()
	return p
}

// stillWaits fails the test if the attempt has ended.
func (p *pending) stillWaits(why string) {
	p.f.t.Helper()
	p.f.settle()
	select {
	case result := <-p.done:
		require.FailNow(p.f.t, "the attempt has ended", "%s: %s %v", why, result.phase, result.status)
	default:
	}
}

// result returns the attempt's outcome. It fails the test if the attempt has not ended by now.
func (p *pending) result() outcome {
	p.f.t.Helper()
	p.f.settle()
	select {
	case result := <-p.done:
		return result
	default:
		require.FailNow(p.f.t, "the attempt goes on")
		return outcome{}
	}
}

// events returns what was recorded since the last call.
func (f *fixture) events() []string {
	var list []string
	for {
		select {
		case event := <-f.recorder.Events:
			list = append(list, event)
		default:
			return list
		}
	}
}

// cancellable returns the context of one binding, which the test can cancel.
func (f *fixture) cancellable() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(f.ctx)
}

// TestBindingWithStaleInformer: the informer does not know the server's answer yet. That must not end the wait; later
// events count.
func TestBindingWithStaleInformer(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, before, after *resourceapi.ResourceClaim){
		"no such claim": func(f *fixture, _, after *resourceapi.ResourceClaim) { f.leave(after) },
		"older state": func(f *fixture, before, after *resourceapi.ResourceClaim) {
			f.leave(after)
			f.arrive(before)
		},
	}
	for name, forget := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fabricWorld("p"), func(t *testing.T, f *fixture) {
				before := f.claim("c")
				p := f.scheduleMeanwhile(f.pod("p"))
				after := f.claim("c")
				forget(f, before, after)
				f.pl.devices.Changed.Tell(after.UID)
				p.stillWaits("the server has said that the claim is allocated")
				time.Sleep(5 * binding.UnlistedInterval)
				p.stillWaits("nor was it deleted meanwhile")
				f.arrive(after)
				f.changeClaim("c", report(attached))
				time.Sleep(2 * binding.UnlistedInterval)
				require.Empty(t, p.result().phase)
			})
		})
	}
}

// TestGroupWaitsForConditions: the pods of a group wait for the group's claim like other pods, and the last one that
// gives up clears it.
func TestGroupWaitsForConditions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		report string
		fails  error
	}{
		"ready": {report: attached}, "failure": {report: broken, fails: binding.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, objects := members(2, uses("c"))
			inGang(t, newPodGroup("c"), plus(fabricNodes("n1"), plus(objects, gpus("c", 1).Obj())...), func(t *testing.T, g *gang) {
				require.Empty(t, g.try(pods...))
				results := make(chan *fwk.Status, len(pods))
				for i := range pods {
					require.NoError(t, g.reserve(i).AsError())
					go func() { results <- g.preBind(i) }()
				}
				g.settle()
				require.Empty(t, results, "not attached")
				require.Equal(t, []string{"gang"}, consumerNames(g.claim("c")))
				g.changeClaim("c", report(test.report))
				g.settle()
				require.Len(t, results, len(pods))
				for range pods {
					require.ErrorIs(t, (<-results).AsError(), test.fails)
				}
				require.Equal(t, test.fails == nil, g.claim("c").Status.Allocation != nil)
				require.Equal(t, test.fails == nil, len(g.claim("c").Status.ReservedFor) == 1)
				if test.fails == nil {
					g.bind(0)
					g.bind(1)
				}
				require.True(t, g.pl.groups.Empty())
			})
		})
	}
}

// metricsProfiles counts profiles, so that each test has its own series.
var metricsProfiles atomic.Int64

// TestBindingMetrics: the scheduler's metrics count what happened.
func TestBindingMetrics(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do      func(f *fixture)
		seconds float64
	}{
		"success": {do: func(f *fixture) { f.changeClaim("c", report(attached)) }, seconds: 60},
		"failure": {do: func(f *fixture) { f.changeClaim("c", report(broken)) }, seconds: 60},
		"timeout": {do: func(*fixture) { time.Sleep(time.Hour) }, seconds: 600},
		"error":   {do: func(f *fixture) { f.remove(f.pod("p")) }, seconds: 60},
	}
	for status, test := range tests {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				profile := fmt.Sprint("metrics-", metricsProfiles.Add(1))
				other := builder.Slice("other").OfDriver("other.example.com").OnNode("n1").Devices(builder.Device("d")).Obj()
				claim := builder.Claim("c", builder.Request("gpu", "gpu").Where(`device.driver == "gpu.example.com"`),
					builder.Request("other", "gpu").Where(`device.driver == "other.example.com"`)).Obj()
				f := newFixture(t, startServer(t, plus(fabricNodes("n1"), other, claim, newPod("p", uses("c")))...), profile)
				f.start()
				p := f.scheduleMeanwhile(f.pod("p"))
				time.Sleep(time.Minute)
				test.do(f)
				p.result()

				for driver, conditional := range map[string]float64{builder.Driver: 1, "other.example.com": 0} {
					vector, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer,
						"scheduler_dra_bindingconditions_wait_duration_seconds",
						map[string]string{"profile": profile, "driver": driver, "status": status})
					require.NoError(t, err)
					require.Equal(t, uint64(1), vector.GetAggregatedSampleCount(), "one device of %s", driver)
					require.InDelta(t, test.seconds, vector.GetAggregatedSampleSum(), 0.1)
					count, err := testutil.GetCounterMetricValue(
						schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, driver, status))
					require.NoError(t, err)
					require.Equal(t, conditional, count, "devices of %s with binding conditions", driver)
				}
			})
		})
	}
}
