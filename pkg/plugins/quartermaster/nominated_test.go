package quartermaster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// nominatedFor sets the status of a pod after preemption, and while it is being bound.
func nominatedFor(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Status.NominatedNodeName = node }
}

// TestNominatedByOthers: a device is kept for a pod of another scheduler that is nominated for a node, from pods of
// lower priority.
func TestNominatedByOthers(t *testing.T) {
	t.Parallel()
	theirs := newPod("theirs", of("other"), uses("a"), priority(10), nominatedFor("n1"))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj(), theirs), func(t *testing.T, f *fixture) {
		result := f.schedule(newPod("low", uses("b"), priority(9)))
		require.Equal(t, "Filter", result.phase)
		require.Contains(t, result.reasons["n1"], "1 device matches: 1 asked; 0 free; 1 held by another claim")
		result = f.schedule(newPod("same", uses("c"), priority(10)))
		require.Empty(t, result.phase, "%v", result.status)
	})
}

// TestKeptForSharedClaim: a device that is kept or held for a claim is kept for all pods that share the claim.
func TestKeptForSharedClaim(t *testing.T) {
	t.Parallel()
	theirs := newPod("theirs", of("other"), uses("a"), priority(10), nominatedFor("n1"))
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj(), theirs), func(t *testing.T, f *fixture) {
		require.Equal(t, "n1", f.schedule(newPod("other", uses("c"))).node)
		require.Contains(t, f.schedule(newPod("both", uses("a"), uses("b"))).reasons["n1"], "claims default/a and default/b want 2 devices", "what is left is not enough")
		result := f.schedule(newPod("shares", uses("a")))
		require.Equal(t, "n1", result.node, "%v", result.status)
	})
	objects, _ := besideLarge(5 * time.Minute)
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		require.Equal(t, "held for pod default/large", strings.Split(f.schedule(newPod("small", uses("s"))).reasons["n1"], " until")[0])
		f.gone("a")
		result := f.schedule(newPod("shares", uses("large")))
		require.Equal(t, "n1", result.node, "%v", result.status)
	})
}

// TestNominatedForExtendedResources: a device is kept for a nominated pod of another scheduler that asks for an extended resource, unless the
// node offers that resource itself.
func TestNominatedForExtendedResources(t *testing.T) {
	t.Parallel()
	theirs := gpuPod("theirs", "1", of("other"), priority(10), nominatedFor("n1"))
	for name, test := range map[string]struct {
		objects []runtime.Object
		phase   string
	}{
		"backed by devices": {backedNodes(1, "n1"), "Filter"},
		"beside a claim":    {plus(backedNodes(2, "n1"), gpus("c", 1).Obj()), "Filter"},
		"offered by a device plugin, beside a claim": {
			[]runtime.Object{backingClass("gpu", gpuResource), offering("n1", gpuResource, "1"), builder.NodeSlice("n1", builder.Device("gpu-0")).Obj(), gpus("c", 1).Obj()}, "Filter",
		},
		"offered by a device plugin": {[]runtime.Object{backingClass("gpu", gpuResource), offering("n1", gpuResource, "1"), builder.NodeSlice("n1", builder.Device("gpu-0")).Obj()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := theirs.DeepCopy()
			if strings.Contains(name, "beside a claim") {
				uses("c")(theirs)
			}
			inCluster(t, plus(test.objects, gpus("b", 1).Obj(), theirs), func(t *testing.T, f *fixture) {
				result := f.schedule(newPod("low", uses("b"), priority(9)))
				require.Equal(t, test.phase, result.phase, "%v", result.status)
			})
		})
	}
}

// TestKeptForOthersEnds: the other scheduler may not run. A pod that was kept from the device is woken once it is no
// longer kept.
func TestKeptForOthersEnds(t *testing.T) {
	t.Parallel()
	theirs := newPod("theirs", of("other"), uses("a"), priority(10), nominatedFor("n1"))
	low := newPod("low", uses("b"), priority(9))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), theirs, low), func(t *testing.T, f *fixture) {
		f.sleep(low)
		time.Sleep(preemption.KeptForOthers)
		f.settle()
		require.Equal(t, []string{"default/low"}, f.names())
		require.True(t, f.fits(low))
	})
}

// TestNominatedAndBeingBound: kube-scheduler nominates pods while it binds them (KEP-5278). They have their devices, and
// need no others.
func TestNominatedAndBeingBound(t *testing.T) {
	t.Parallel()
	binding := newPod("binding", uses("a"), priority(10), nominatedFor("n1"))
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), binding), func(t *testing.T, f *fixture) {
		a := f.mustBegin(binding).filter()
		require.Empty(t, a.reserve("n1"))
		result := f.schedule(newPod("low", uses("b"), priority(0)))
		require.Empty(t, result.phase, "%v", result.status)
		a.unreserve("n1")
	})
}

// TestVictimsEndWakes: the queue calls PreEnqueue again for a pod that it keeps out, once one of its victims is gone.
// It does so only for events that the plugin has registered.
func TestVictimsEndWakes(t *testing.T) {
	t.Parallel()
	inCluster(t, nil, func(t *testing.T, f *fixture) {
		events, err := f.pl.EventsToRegister(f.ctx)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(events, func(e fwk.ClusterEventWithHint) bool {
			return e.Event.Resource == fwk.AssignedPod && e.Event.ActionType == fwk.Delete
		}))
	})
}

// TestNominatedWhileEvaluating: as long as it is not known which devices a nominated pod of another scheduler gets, because its
// expression is still being evaluated, pods of lower priority get none of its node. Those of other nodes are free.
func TestNominatedWhileEvaluating(t *testing.T) {
	t.Parallel()
	theirs := newPod("theirs", of("other"), uses("c"), priority(10), nominatedFor("n0"))
	low, elsewhere := newPod("low", uses("a"), priority(9)), newPod("elsewhere", uses("b"), priority(9))
	inCluster(t, plus(indexed("n0", "n1"), choosy("0"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), theirs, low), func(t *testing.T, f *fixture) {
		f.settle()
		f.pl.attemptBudget = 0
		result := f.schedule(elsewhere)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n1", result.node)
		f.settle()
		result = f.schedule(low)
		require.Contains(t, result.reasons["n0"], "held by another claim",
			"planned without a pause after the evaluation")
	})
}

// TestTriedAfterNomineesVerdict: the pod that had to wait for a nominated pod's expression is tried again after the evaluation.
func TestTriedAfterNomineesVerdict(t *testing.T) {
	t.Parallel()
	theirs := newPod("theirs", of("other"), uses("c"), priority(10), nominatedFor("n0"))
	low := newPod("low", uses("a"), priority(9))
	inCluster(t, plus(indexed("n0"), choosy("1"), gpus("a", 1).Obj(), theirs, low), func(t *testing.T, f *fixture) {
		f.settle()
		f.pl.attemptBudget = 0
		result := f.schedule(low)
		require.Equal(t, "Filter", result.phase)
		require.Contains(t, result.reasons["n0"], "for a nominated pod that comes first")
		f.settle()
		require.Contains(t, f.names(), "default/low")
		require.Empty(t, f.schedule(low).phase, "the nominated pod cannot use the node's device")
	})
}
