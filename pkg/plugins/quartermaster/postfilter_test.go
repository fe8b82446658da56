package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

func TestPostFilter(t *testing.T) {
	t.Parallel()
	elsewhere := with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		// freed says that the claim gets deallocated.
		freed bool
		text  string
	}{
		"nobody uses it":        {claim: elsewhere, freed: true, text: "claim default/c was deallocated to find devices elsewhere"},
		"reserved for the pod":  {claim: with(elsewhere, reservedFor("p")), freed: true, text: "claim default/c was deallocated to find devices elsewhere"},
		"reserved for another":  {claim: with(elsewhere, reservedFor("other"))},
		"reserved for both":     {claim: with(elsewhere, reservedFor("p", "other"))},
		"no devices, no blame":  {claim: gpus("c", 5).Obj()},
		"fits, others are full": {claim: with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Claim d fits nowhere in any case.
			objects := plus(gpuNodes(1, "n1"), test.claim, gpus("d", 9).Obj())
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				before := f.claim("c")
				result := f.schedule(newPod("p", uses("c"), uses("d")))
				require.Equal(t, "Filter", result.phase)
				require.Equal(t, test.freed, result.status.IsSuccess(), "what comes later is for pods that cannot be helped: %v", result.status)
				require.Equal(t, !test.freed, result.status.Code() == fwk.Unschedulable, "%v", result.status)
				require.Equal(t, test.text, result.text())
				if !test.freed {
					require.Equal(t, before, f.claim("c"))
					return
				}
				require.Empty(t, deviceNames(f.claim("c")))
				require.Empty(t, consumerNames(f.claim("c")))
			})
		})
	}
}

// TestPostFilterWhileEvaluating: a claim that can be used on only one node stays allocated while it is unknown whether
// the other claim finds devices there.
func TestPostFilterWhileEvaluating(t *testing.T) {
	t.Parallel()
	here := with(gpus("here", 1).Allocated("n1", "other"), onNode("n1"))
	inCluster(t, plus(indexed("n0", "n1", "n2"), here, choosy("1")), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("here"), uses("c"))
		f.create(pod)
		f.settle()
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		f.pl.attemptBudget = 0
		require.Equal(t, "Filter", f.schedule(pod).phase)
		require.NotNil(t, f.claim("here").Status.Allocation)
		f.settle()
		require.Equal(t, "n1", f.schedule(pod).node)
	})
}

// TestPostFilterLeadsToAnotherNode: the next attempt finds devices elsewhere.
func TestPostFilterLeadsToAnotherNode(t *testing.T) {
	t.Parallel()
	claim := with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	inCluster(t, plus(gpuNodes(1, "n1"), claim), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		require.Equal(t, "Filter", f.schedule(pod).phase)
		require.Empty(t, f.inUse("gone"), "known before the event")
		f.settle()
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
	})
}

// TestPostFilterFreesOneClaim: each attempt frees no more than one.
func TestPostFilterFreesOneClaim(t *testing.T) {
	t.Parallel()
	var claims []runtime.Object
	for _, name := range []string{"a", "b"} {
		claims = append(claims, with(gpus(name, 1).Allocated("gone", "gpu-"+name), onNode("gone")))
	}
	inCluster(t, plus(gpuNodes(2, "n1"), claims...), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("a"), uses("b"))
		f.schedule(pod)
		require.Empty(t, deviceNames(f.claim("a")))
		require.NotEmpty(t, deviceNames(f.claim("b")))
		f.settle()
		f.schedule(pod)
		f.settle()
		require.Empty(t, f.schedule(pod).phase)
	})
}

// TestPostFilterOnStaleState: the plugin's state differs from the server's.
func TestPostFilterOnStaleState(t *testing.T) {
	t.Parallel()
	elsewhere := with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	tests := map[string]struct {
		meanwhile func(f *fixture)
		fails     bool
		devices   []string // nil if the claim is gone
	}{
		"reserved by another": {
			meanwhile: func(f *fixture) { f.changeClaim("c", reservedFor("other")) },
			fails:     true, devices: []string{"gone/gpu-0"},
		},
		"allocated anew": {
			meanwhile: func(f *fixture) { f.changeClaim("c", allocate("n1", "gpu-0")) },
			fails:     true, devices: []string{"n1/gpu-0"},
		},
		"gone":     {meanwhile: func(f *fixture) { f.remove(elsewhere) }},
		"no right": {meanwhile: func(f *fixture) { f.fail(fault{on: "update/status", err: forbidden()}) }, fails: true, devices: []string{"gone/gpu-0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), elsewhere), func(t *testing.T, f *fixture) {
				a := f.mustBegin(newPod("p", uses("c"))).filter()
				require.Empty(t, a.feasible)
				test.meanwhile(f)
				_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
				if test.fails {
					require.Equal(t, fwk.Error, status.Code())
					require.Contains(t, status.Message(), "free the devices of claim default/c (they fit no node)")
				} else {
					require.True(t, status.IsSuccess(), "%v", status)
				}
				if test.devices != nil {
					require.Equal(t, test.devices, deviceNames(f.claim("c")))
				}
			})
		})
	}
}

// TestPostFilterFails: after an error, the pod is tried again after its pause, although nothing happens: kube-scheduler has it wait like a pod that
// does not fit.
func TestPostFilterFails(t *testing.T) {
	t.Parallel()
	claim := with(gpus("c", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	inCluster(t, plus(gpuNodes(1, "n1"), claim, newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.settle()
		f.forget()
		f.fail(fault{on: "update/status", claim: "c", err: forbidden()})
		result := f.schedule(f.pod("p"))
		require.Equal(t, fwk.Error, result.status.Code(), "%v", result.status)
		require.Empty(t, f.names())
		time.Sleep(queue.LongestPause)
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}
