package quartermaster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// notSynced runs a test with a plugin that knows all claims and classes, but has
// not heard of slices.
func notSynced(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		objects := plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), gpus("held", 1).Obj())
		f := newFixture(t, startServer(t, objects...), "default")
		api := f.factory.Resource().V1()
		for _, informer := range []cache.SharedIndexInformer{api.ResourceClaims().Informer(), api.DeviceClasses().Informer(), api.DeviceTaintRules().Informer(), f.factory.Core().V1().Pods().Informer()} {
			go informer.RunWithContext(f.ctx)
		}
		f.settle()
		test(t, f)
	})
}

func TestPreFilterWaitsForTheState(t *testing.T) {
	t.Parallel()
	notSynced(t, func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		attempts := make(chan *attempt, 1)
		go func() {
			a, status := f.begin(pod)
			if !status.IsSuccess() {
				t.Errorf("PreFilter: %v", status)
			}
			attempts <- a
		}()
		f.settle()
		require.Empty(t, attempts, "PreFilter has to wait: devices would seem to be missing, or free")

		go f.factory.Resource().V1().ResourceSlices().Informer().RunWithContext(f.ctx)
		f.settle()
		require.Len(t, attempts, 1, "PreFilter has to go on")
		require.Equal(t, []string{"n1"}, (<-attempts).filter().feasible)
	})
}

func TestPreFilterStopsWaiting(t *testing.T) {
	t.Parallel()
	notSynced(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancelCause(f.ctx)
		statuses := make(chan *fwk.Status, 1)
		go func() {
			_, status := f.pl.PreFilter(ctx, framework.NewCycleState(), newPod("p", uses("c")), nil)
			statuses <- status
		}()
		f.settle()
		require.Empty(t, statuses)
		reason := errors.New("shutting down")
		cancel(reason)
		status := <-statuses
		require.Equal(t, fwk.Error, status.Code())
		require.ErrorIs(t, status.AsError(), reason)
	})
}

func TestProfilesShareTheState(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj()), func(t *testing.T, f *fixture) {
		other := newProfile(f, "other")
		require.Same(t, f.pl.state, other.state)
		first := f.mustBegin(newPod("first", uses("a"))).filter()
		require.NoError(t, first.reserve("n1").AsError())
		// The same scheduler, now with the other profile.
		mine := f.pl
		f.pl = other
		require.Equal(t, "cannot allocate all claims: claim default/b request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim",
			f.schedule(newPod("second", uses("b"))).reasons["n1"])
		f.pl = mine
		first.unreserve("n1")
	})
}

// TestStateFollowsEvents: through the informers and our handlers, without hints.
func TestStateFollowsEvents(t *testing.T) {
	t.Parallel()
	tainted := builder.NodeSlice("n1", builder.Device("gpu-0").Taint("broken", resourceapi.DeviceTaintEffectNoSchedule)).Obj()
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = "rule"
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: ptr.To("n1")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	free := builder.NodeSlice("n1", builder.Devices("gpu-0")...).Obj()

	steps := []struct {
		name string
		do   func(f *fixture)
		want string // reason on the node, "" if it fits
	}{
		{"at the start", func(*fixture) {}, ""},
		{"allocated to another", func(f *fixture) { f.changeClaim("other", allocate("n1", "gpu-0")) }, "held by another claim"},
		{"deallocated", func(f *fixture) { f.changeClaim("other", deallocate) }, ""},
		{"allocated again", func(f *fixture) { f.changeClaim("other", allocate("n1", "gpu-0")) }, "held by another claim"},
		{"other deleted", func(f *fixture) { f.remove(gpus("other", 1).Obj()) }, ""},
		{"tainted by driver", func(f *fixture) { f.replace(tainted) }, "cannot allocate all claims: claim default/c request gpu: 1 device matches: 1 asked; 0 free; 1 has a taint that is not tolerated (broken)"},
		{"taint gone", func(f *fixture) { f.replace(free) }, ""},
		{"tainted by rule", func(f *fixture) { f.create(rule) }, "cannot allocate all claims: claim default/c request gpu: 1 device matches: 1 asked; 0 free; 1 has a taint that is not tolerated (maintenance)"},
		{"rule gone", func(f *fixture) { f.remove(rule) }, ""},
		{"slice gone", func(f *fixture) { f.remove(free) }, "the node has no devices"},
		{"slice back", func(f *fixture) { f.create(free) }, ""},
		{"class gone", func(f *fixture) { f.remove(builder.Class("gpu")) }, "device class gpu does not exist"},
		{"class back, for others", func(f *fixture) { f.create(builder.Class("gpu", "false")) }, "no device matches"},
	}
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), gpus("other", 1).Obj()), func(t *testing.T, f *fixture) {
		for _, step := range steps {
			step.do(f)
			f.settle()
			a, status := f.begin(newPod("p", uses("c")))
			got := status.Message()
			if status.IsSuccess() {
				got = a.filter().reasons["n1"]
			}
			if step.want == "" {
				require.Empty(t, got, step.name)
			} else {
				require.Contains(t, got, step.want, step.name)
			}
		}
	})
}
