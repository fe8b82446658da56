package quartermaster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// In these tests no attempt may wait for an evaluation, so all expressions are evaluated in the background.

func noBudget() *selector.Budget { return selector.NewBudget(0, 0) }

const takesLong = "claim default/c request gpu selector 0 takes long to evaluate on the devices of this node; " +
	"this goes on in the background and the pod is tried again when it is done"

// choosy is a claim for a device with the given index.
func choosy(index string) *resourceapi.ResourceClaim {
	return builder.Claim("c", builder.Request("gpu", "gpu").Where(`device.attributes["gpu.example.com"].index == `+index)).Obj()
}

// indexed makes class gpu and nodes with one GPU each, which are all different.
func indexed(names ...string) []runtime.Object {
	objects := []runtime.Object{builder.Class("gpu")}
	for i, name := range names {
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, builder.Device("gpu-0").Attr("index", i)).Obj())
	}
	return objects
}

func TestPendingVerdicts(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(indexed("n0", "n1", "n2"), choosy("1")), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		f.create(pod)
		f.settle()
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		f.pl.attemptBudget = 0
		a := f.mustBegin(pod).filter()
		require.Empty(t, a.feasible)
		require.Equal(t, map[string]string{"n0": takesLong, "n1": takesLong, "n2": takesLong}, a.reasons)
		f.settle()
		require.Contains(t, f.activator.names(), "default/p", "tried again")
		require.Equal(t, "n1", f.schedule(pod).node)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
	})
}

// TestPendingAfterTheAttempt: a pod that is tried again does not wait for the evaluations of an earlier attempt, nor
// does a deleted pod.
func TestPendingAfterTheAttempt(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(indexed("n0"), choosy("1")), func(t *testing.T, f *fixture) {
		f.pl.attemptBudget = 0
		for name, end := range map[string]func(pod *v1.Pod){
			"gone":  func(pod *v1.Pod) { f.pl.waiting.Forget(pod.UID) },
			"again": func(pod *v1.Pod) { f.pl.waiting.Begin(pod) },
		} {
			pod := newPod(name, uses("c"))
			f.create(pod)
			f.settle()
			f.mustBegin(pod).filter()
			entry := f.pl.waiting.Get(pod.UID)
			end(pod)
			require.Empty(t, entry.Pending())
		}
	})
}

// TestPendingOnTheChosenNode: what Reserve cannot find out in time is an error, after
// which the scheduler tries the pod again.
func TestPendingOnTheChosenNode(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(indexed("n0"), choosy("0")), func(t *testing.T, f *fixture) {
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		a := f.mustBegin(newPod("p", uses("c")))
		cycle, err := cycleOf(a.state)
		require.NoError(t, err)
		cycle.evaluation = noBudget()
		status := a.reserve("n0")
		require.Equal(t, fwk.Error, status.Code())
		require.Contains(t, status.Message(), takesLong)
		f.settle()
		require.True(t, a.reserve("n0").IsSuccess())
		a.unreserve("n0")
	})
}

// TestEventsDoNotWait: while it is not known whether devices match, events wake the pod.
func TestEventsDoNotWait(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.arrive(builder.Class("gpu"), choosy("5"))
		f.pl.events.Context = selector.WithBudget(context.Background(), noBudget())
		pod := newPod("p", uses("c"))
		slice := builder.NodeSlice("n1", builder.Device("gpu-0").Attr("index", 1)).Obj()
		f.arrive(pod, slice)
		f.rejected(pod)
		tell(t, f.pl.state.sliceChanged, nil, slice, false)
		require.NotEmpty(t, f.names())
		f.settle()
		f.rejected(pod)
		tell(t, f.pl.state.sliceChanged, nil, slice, false)
		require.Empty(t, f.names())
	})
}

// TestPendingDerivedAttributes: they have the same budget as selectors, and the pod is tried
// again when they are known.
func TestPendingDerivedAttributes(t *testing.T) {
	t.Parallel()
	const name = "derived.example.com/board"
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Distinct(name).Modify(func(c *resourceapi.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{
			{Name: name, Expression: `device.attributes["gpu.example.com"].index / 2`},
		}
	}).Obj()
	inCluster(t, plus(indexed("n0", "n1"), claim), func(t *testing.T, f *fixture) {
		f.pl.solver.Features.DerivedAttributes = true
		pod := newPod("p", uses("c"))
		f.create(pod)
		f.settle()
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		f.pl.attemptBudget = 0
		a := f.mustBegin(pod).filter()
		require.Empty(t, a.feasible)
		const reason = "claim default/c request gpu derived attribute " + name + ": the expression takes long to evaluate on the " +
			"devices of this node; this goes on in the background and the pod is tried again when it is done"
		require.Equal(t, map[string]string{"n0": reason, "n1": reason}, a.reasons)
		f.settle()
		require.Contains(t, f.activator.names(), "default/p", "tried again")
		require.Empty(t, f.schedule(pod).phase)
	})
}

// TestFilterTimeoutWhileDeriving: that is a timeout like any other.
func TestFilterTimeoutWhileDeriving(t *testing.T) {
	t.Parallel()
	const name = "derived.example.com/board"
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Distinct(name).Modify(func(c *resourceapi.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: name, Expression: `1`}}
	}).Obj()
	inCluster(t, plus(indexed("n0"), claim, newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.pl.solver.Features.DerivedAttributes = true
		f.pl.state.NodeCache.AtOnce = 0 // The test is to be the first one to ask.
		pod := f.pod("p")
		f.activated = nil
		a := f.mustBegin(pod)
		task := cycleTask(t, a)
		_, err := task.Check(&endsAfter{Context: f.ctx, looks: 1}, f.pl.nodeView(&cycle{cyclePreemption: cyclePreemption{usage: f.pl.state.Ledger}}, f.nodeInfos()[0].Node()))
		require.True(t, isFilterTimeout(f.ctx, err), "%v", err)
	})
}

// endsAfter is a context that has reached a deadline when it was asked so many times.
type endsAfter struct {
	context.Context
	looks int
}

func (e *endsAfter) Err() error {
	e.looks--
	if e.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func cycleTask(t *testing.T, a *attempt) *allocator.Task {
	t.Helper()
	c, err := cycleOf(a.state)
	require.NoError(t, err)
	return c.task
}
